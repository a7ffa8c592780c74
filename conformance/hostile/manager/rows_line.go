package manager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"microvms/agentd/api/msp"
)

const (
	keptLine   = 65536   // of a log line in a bounded mode
	keptOutput = 4194304 // of an output in mode safe
	keptLines  = 128     // of a log in mode safe
)

func lineRows() []Row {
	return []Row{{
		ID: "X2", Name: "1 GiB in one log line, a million log lines and 1 GiB of output, in the bounded debug modes",
		Expect:       "the executor is not held up, and the manager keeps what the mode says",
		Requirements: []string{"EXECUTOR-20", "EXECUTOR-21", "EXECUTOR-22", "EXECUTOR-24", "EXECUTOR-26", "EXECUTOR-27", "EXECUTOR-28"},
		Cases: []Case{
			{"disabled: a line without an end", line(msp.DebugDisabled, 1, 0, 0)},
			{"safe: a line without an end", line(msp.DebugSafe, 1, 1, keptLine+100)},
			{"disabled: a million lines", lines(msp.DebugDisabled, 0)},
			{"safe: a million lines", lines(msp.DebugSafe, keptLines)},
			{"disabled: output", output(msp.DebugDisabled, 0)},
			{"safe: output", output(msp.DebugSafe, keptOutput)},
		},
	}, {
		ID: "X3", Name: "long log lines without an end in the unbounded debug modes",
		Expect:       "each byte is kept",
		Requirements: []string{"EXECUTOR-23", "EXECUTOR-24", "EXECUTOR-26"},
		// Unbounded is what the caller asked for: a 16th of the bounded modes' line.
		Ceiling: func(Knobs) int64 { return 1 << 30 },
		Cases: []Case{
			{"safe-unbounded", line(msp.DebugSafeUnbounded, 16, 1<<20, 1<<31)},
			{"unsafe", line(msp.DebugUnsafe, 16, 1<<20, 1<<31)},
			{"unsafe-tracing", line(msp.DebugUnsafeTracing, 16, 1<<20, 1<<31)},
		},
	}, {
		ID: "X4", Name: "executors that fork and leave others with their pipes",
		Expect:       "the run ends after the linger; who stayed in the group is killed, who left keeps its life and holds up nobody",
		Requirements: []string{"EXECUTOR-30", "MGR-30"},
		Together:     true,
		Cases: []Case{
			{"one in the group", forks(1, false)},
			{"fifty in the group", forks(50, false)},
			{"one that left", forks(1, true)},
			{"twenty that left", forks(20, true)},
		},
	}}
}

// line has an executor log LineBytes/part letters in one line, and wants an
// artifact of least to most bytes.
func line(mode msp.DebugMode, part int64, least, most uint64) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return with(func(c *peer) error {
			n := p.Knobs.LineBytes / part
			r := run(fmt.Sprintf("log-bytes=%d", n), "exit=5")
			r.DebugMode = mode
			f, err := c.whole(r)
			if err != nil {
				return err
			}
			if part > 1 {
				least, most = uint64(n), uint64(n)+100 // the record around it
			}
			if got := f.Sizes.GenvmLog; f.ExitCode == nil || *f.ExitCode != 5 || got < least || got > most {
				return fmt.Errorf("ended with code %s and a log of %d bytes, want %d to %d", exit(f.ExitCode), got, least, most)
			}
			return c.ack(f.GenvmID)
		})(ctx, p)
	}
}

func lines(mode msp.DebugMode, want int) func(context.Context, *probe) error {
	return inWith(func(_ context.Context, p *probe, c *peer) error {
		r := run(fmt.Sprintf("log-lines=%d", p.Knobs.Lines), "exit=5")
		r.DebugMode = mode
		f, err := c.whole(r)
		if err != nil {
			return err
		}
		_, data, err := c.page(f.GenvmID, msp.GenvmLog, 0)
		if err != nil {
			return err
		}
		n := 0
		for _, b := range data {
			if b == '\n' {
				n++
			}
		}
		if f.ExitCode == nil || *f.ExitCode != 5 || n != want {
			return fmt.Errorf("ended with code %s and %d lines, want %d", exit(f.ExitCode), n, want)
		}
		return c.ack(f.GenvmID)
	})
}

func output(mode msp.DebugMode, want uint64) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return with(func(c *peer) error {
			r := run(fmt.Sprintf("stdout-bytes=%d", p.Knobs.LineBytes), fmt.Sprintf("stderr-bytes=%d", p.Knobs.LineBytes), "exit=5")
			r.DebugMode = mode
			f, err := c.whole(r)
			if err != nil {
				return err
			}
			if f.ExitCode == nil || *f.ExitCode != 5 || f.Sizes.Stdout != want || f.Sizes.Stderr != want {
				return fmt.Errorf("ended with code %s and %d and %d bytes, want %d", exit(f.ExitCode), f.Sizes.Stdout, f.Sizes.Stderr, want)
			}
			return c.ack(f.GenvmID)
		})(ctx, p)
	}
}

// forks has an executor leave members behind that hold its outputs and its log.
func forks(n int, escaped bool) func(context.Context, *probe) error {
	return inWith(func(ctx context.Context, _ *probe, c *peer) error {
		g, err := newGate()
		if err != nil {
			return err
		}
		defer g.close()
		word := "fork"
		if escaped {
			word = "fork-escaped"
		}
		steps := make([]string, 0, n+2)
		for range n {
			steps = append(steps, g.step(word))
		}
		// The gate keeps the executor until all members are there.
		id, err := c.start(run(append(steps, g.step("gate"), "exit=5")...))
		if err != nil {
			return err
		}
		guests := make([]net.Conn, n+1)
		for i := range guests {
			if guests[i], err = g.guest(ctx); err != nil {
				return err
			}
		}
		for _, guest := range guests {
			// The executor goes on; members answer that this is no step, if they still can.
			if _, err := io.WriteString(guest, "group\n"); err != nil {
				return err
			}
		}
		ev, err := c.finish(id)
		if err != nil || ev.Finished == nil || ev.Finished.ExitCode == nil || *ev.Finished.ExitCode != 5 {
			return fmt.Errorf("ended as %+v: %v", ev, err)
		}
		if escaped {
			return errors.Join(stillThere(guests, n), c.ack(id))
		}
		for _, guest := range guests {
			if _, err := io.Copy(io.Discard, guest); timedOut(err) {
				return errors.New("a member of the group outlived the run")
			}
		}
		return c.ack(id)
	})
}

// stillThere asks everybody again, of whom n must answer.
func stillThere(guests []net.Conn, n int) error {
	alive := 0
	for _, guest := range guests {
		buf := make([]byte, 100)
		if _, err := guest.Read(buf); err != nil { // the answer to the first question
			continue
		}
		if _, err := io.WriteString(guest, "log=x\n"); err != nil {
			continue
		}
		if _, err := guest.Read(buf); err == nil {
			alive++
		}
	}
	if alive != n {
		return fmt.Errorf("%d of %d that left the group are alive", alive, n)
	}
	return nil
}
