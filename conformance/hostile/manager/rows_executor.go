package manager

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"microvms/agentd/api/msp"
)

// maxResult is the longest result and the longest envelope that a manager takes.
const maxResult = 66060288

// ending is how a run must end.
type ending struct {
	code     int64
	consumed int // bytes of the result, -1: none was taken
}

// ends runs the steps and compares the end.
func ends(want ending, steps ...string) func(context.Context, *probe) error {
	return with(func(c *peer) error {
		f, err := c.whole(run(steps...))
		if err != nil {
			return err
		}
		got := len(f.Consumed)
		if f.Consumed == nil {
			got = -1
		}
		if f.Cause != msp.Exited || f.ExitCode == nil || *f.ExitCode != want.code || got != want.consumed {
			return fmt.Errorf("ended by %s with code %s and a result of %d bytes, want code %d and %d bytes",
				f.Cause, exit(f.ExitCode), got, want.code, want.consumed)
		}
		return c.ack(f.GenvmID)
	})
}

func exit(code *int64) string {
	if code == nil {
		return "none"
	}
	return strconv.FormatInt(*code, 10)
}

// stopped runs the steps and cancels the run once it has printed that they were
// taken.
func stopped(steps ...string) func(context.Context, *probe) error {
	return inWith(func(ctx context.Context, p *probe, c *peer) error {
		g, err := newGate()
		if err != nil {
			return err
		}
		defer g.close()
		r := run(append(steps, g.step("gate"), "hang")...)
		id, err := c.start(r)
		if err != nil {
			return err
		}
		if err := g.await(ctx); err != nil { // the steps were taken
			return err
		}
		if err := c.cancel(id); err != nil {
			return err
		}
		ev, err := c.finish(id)
		if err != nil || ev.Finished == nil || ev.Finished.Cause != msp.Cancelled || ev.Finished.ExitCode != nil {
			return fmt.Errorf("ended as %s: %+v: %v", ev.Kind(), ev.Finished, err)
		}
		return c.ack(id)
	})
}

func executorRows() []Row {
	const nothing = -1
	return []Row{{
		ID: "X1", Name: "executors that lie on the manager's host connection",
		Expect:       "the connection is closed, the run ends by its exit, and the first whole result counts",
		Requirements: []string{"EXECUTOR-31", "EXECUTOR-32", "EXECUTOR-33", "EXECUTOR-36", "EXECUTOR-41", "MGR-7", "MGR-14"},
		// A result of the longest kind is read, kept, encoded and written.
		Ceiling: func(k Knobs) int64 { return 8*maxResult + 4*k.MaxMessage + 128<<20 },
		Cases: []Case{
			{"a result of 2^32-1 bytes announced", ends(ending{0, nothing}, "claim=4294967295", "host1-eof")},
			{"a result over the limit announced", ends(ending{0, nothing}, fmt.Sprint("claim=", maxResult+1), "host1-eof")},
			{"a result announced and not sent", ends(ending{3, nothing}, fmt.Sprint("claim=", maxResult), "exit=3")},
			{"a result announced and never sent", stopped(fmt.Sprint("claim=", maxResult))},
			{"half a length", ends(ending{4, nothing}, "raw=0601", "exit=4")},
			{"an envelope of 2^32-1 bytes announced", ends(ending{0, nothing}, "raw=08ffffffff", "host1-eof")},
			{"an envelope announced and never sent", stopped("raw=08ffffef03", "result=none")},
			{"an envelope that is no calldata", nestedGarbage("ff")},
			{"an envelope that is a depth bomb", nestedGarbage(strings.Repeat("0d", 10_000))},
			{"an envelope that is empty", nestedGarbage("")},
			{"an unknown method", ends(ending{0, nothing}, "raw=ff", "host1-eof")},
			{"a method of host 0", ends(ending{0, nothing}, "raw=00", "host1-eof")},
			{"2,000 questions and no answer read", ends(ending{0, nothing}, "raw="+strings.Repeat("07"+strings.Repeat("00", 22), 2000), "exit=0")},
			{"two results", ends(ending{0, 10}, "result-bytes=10", "result-bytes=20")},
			{"a result of no byte", ends(ending{0, 0}, "result-bytes=0")},
			{"the longest result", ends(ending{0, maxResult}, fmt.Sprint("result-bytes=", maxResult))},
			{"a result one longer", ends(ending{125, nothing}, fmt.Sprint("result-bytes=", maxResult+1))},
			{"a result after the connection was closed", ends(ending{125, nothing}, "raw=ff", "result-bytes=1000000")},
			{"an input that is not read", unreadInput},
			{"an input that is never read", stopped("stdin=later")},
			{"a crash", crash},
		},
	}}
}

// nestedGarbage sends an envelope that cannot be run: it is answered, and the run
// goes on.
func nestedGarbage(envelope string) func(context.Context, *probe) error {
	return with(func(c *peer) error {
		f, err := c.whole(run("nested="+envelope, "result-bytes=1"))
		if err != nil {
			return err
		}
		if f.ExitCode == nil || *f.ExitCode != 0 || len(f.Consumed) != 1 {
			return fmt.Errorf("ended with code %s and a result of %d bytes", exit(f.ExitCode), len(f.Consumed))
		}
		_, data, err := c.page(f.GenvmID, msp.Stdout, 0)
		if want := hex.EncodeToString([]byte(msp.ResultInternalError)); err != nil || !strings.Contains(string(data), want) {
			return fmt.Errorf("the envelope was answered %.200q: %v", data, err)
		}
		return c.ack(f.GenvmID)
	})
}

// unreadInput has an executor exit without a look at its megabytes of input.
func unreadInput(ctx context.Context, p *probe) error {
	return withMax(func(c *peer, max int64) error {
		r := run("stdin=later", "stdout=x", "exit=6")
		r.Calldata = append(number(nil, uint64(max-8192), tagBytes), make([]byte, max-8192)...)
		f, err := c.whole(r)
		if err == nil && (f.ExitCode == nil || *f.ExitCode != 6) {
			err = fmt.Errorf("ended with code %s", exit(f.ExitCode))
		}
		if err != nil {
			return err
		}
		return c.ack(f.GenvmID)
	})(ctx, p)
}

// crash has executors end by signals, which is an exit without a code.
func crash(ctx context.Context, p *probe) error {
	return with(func(c *peer) error {
		for _, signal := range []string{"9", "15"} {
			f, err := c.whole(run("signal=" + signal))
			if err == nil && (f.Cause != msp.Exited || f.ExitCode != nil) {
				err = fmt.Errorf("signal %s: ended by %s with code %s", signal, f.Cause, exit(f.ExitCode))
			}
			if err != nil {
				return err
			}
			if err := c.ack(f.GenvmID); err != nil {
				return err
			}
		}
		return nil
	})(ctx, p)
}
