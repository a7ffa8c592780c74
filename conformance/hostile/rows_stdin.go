package hostile

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"

	"microvms/agentd/api"
)

// stdinWrites is E11. EOF after EOF is answered like every write after it (wire
// facts, section 7.4).
func stdinWrites() Row {
	bad := func(name, body string) Case {
		return Case{Name: name, Do: onCat(func(ctx context.Context, p *probe, id string) error {
			return p.expect(ctx, "POST", execPath(id, "/stdin"), body, refused(api.MalformedRequest))
		})}
	}
	return Row{
		ID: "E11", Name: "stdin that is not read, written after its end, by two at once, empty, malformed",
		Expect:       "back-pressure, typed refusals, order; no write hangs",
		Requirements: []string{"STDIN-2", "STDIN-3", "STDIN-4", "STDIN-5", "STDIN-6", "STDIN-7", "STDIN-8", "STDIN-9", "STDIN-10"},
		Together:     true,
		Cases: []Case{
			{Name: "a child that never reads", Do: neverReads},
			{Name: "a write above the cap", Do: onCat(func(ctx context.Context, p *probe, id string) error {
				return p.expect(ctx, "POST", execPath(id, "/stdin"), data(strings.Repeat("x", 1048577), false), refused(api.StdinWriteTooLarge))
			})},
			{Name: "not asked for", Do: func(ctx context.Context, p *probe) error {
				id := p.id()
				return errors.Join(p.start(ctx, id, argv("/bin/sleep", "300")),
					p.expect(ctx, "POST", execPath(id, "/stdin"), data("x", true), refused(api.StdinNotRequested)))
			}},
			{Name: "an unknown exec", Do: func(ctx context.Context, p *probe) error {
				return p.expect(ctx, "POST", execPath(p.id(), "/stdin"), data("x", true), refused(api.UnknownExec))
			}},
			{Name: "after the end of file", Do: afterEOF},
			{Name: "two writers at once", Do: twoWriters},
			{Name: "the child ends during a write", Do: endsDuringWrite},
			{Name: "no bytes", Do: onCat(noBytes)},
			bad("bad base64", `{"data_b64":"a"}`), bad("base64 for URLs", `{"data_b64":"_-8="}`), bad("no padding", `{"data_b64":"YQ"}`),
			bad("base64 in lines", `{"data_b64":"YW\nJj"}`), bad("spare bits", `{"data_b64":"YR=="}`),
			bad("another signal", `{"signal":"EOF"}`), bad("a number", `{"data_b64":1}`), bad("no object", `[]`),
			bad("a key twice", `{"signal":"eof","signal":"eof"}`), bad("bytes after the object", `{} {}`), bad("nothing", ``),
		},
	}
}

// data is the body of a stdin request.
func data(text string, eof bool) string {
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	req := api.StdinRequest{DataB64: &encoded}
	if eof {
		signal := api.SignalEOF
		req.Signal = &signal
	}
	b, err := json.Marshal(req)
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return string(b)
}

// onCat plays a case on a child that echoes, and then holds that what was
// refused had no effect: the child gets the line of the end and nothing more.
func onCat(do func(ctx context.Context, p *probe, id string) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
			return err
		}
		if err := do(ctx, p, id); err != nil {
			return err
		}
		if err := p.expect(ctx, "POST", execPath(id, "/stdin"), data("end", true), is(200)); err != nil {
			return err
		}
		end, err := p.ended(ctx, id)
		if err == nil && end.Stdout != "end" {
			err = fmt.Errorf("the child got %.80q", end.Stdout)
		}
		return err
	}
}

func noBytes(ctx context.Context, p *probe, id string) error {
	for _, body := range []string{`{}`, `{"data_b64":""}`, `{"data_b64":null,"signal":null}`, `{"other":1}`} {
		r, err := p.call(ctx, "POST", execPath(id, "/stdin"), body)
		if err != nil {
			return err
		}
		var s api.StdinResponse
		if err := json.Unmarshal(r.body, &s); err != nil || r.status != 200 || s.Written != 0 || s.EOF || s.ExecID != id {
			return fmt.Errorf("%s answered %v: %w", body, r, err)
		}
	}
	return nil
}

// neverReads fills the pipe: the write ends by its deadline and the pipe stays
// open for another try.
func neverReads(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/sleep", "300").with("stdin", true)); err != nil {
		return err
	}
	full := data(strings.Repeat("x", 1<<20), false)
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), full, refused(api.StdinWriteTimeout)); err != nil {
		return err
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{}`, is(200)); err != nil {
		return fmt.Errorf("the pipe after a write that timed out: %w", err)
	}
	killed, err := p.kill(ctx, id)
	if err == nil && !killed {
		err = errors.New("the child was not there to be killed")
	}
	return err
}

func afterEOF(ctx context.Context, p *probe) error {
	id := p.id()
	// The child closes its stdin only by ending, so it is the daemon's end that
	// is closed.
	if err := p.start(ctx, id, script("cat; sleep 300").with("stdin", true)); err != nil {
		return err
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), data("one", true), is(200)); err != nil {
		return err
	}
	for _, body := range []string{data("two", false), `{"signal":"eof"}`, `{"signal":"eof"}`, data("two", true), `{}`} {
		if err := p.expect(ctx, "POST", execPath(id, "/stdin"), body, refused(api.StdinClosed)); err != nil {
			return fmt.Errorf("%.40s: %w", body, err)
		}
	}
	if _, err := p.kill(ctx, id); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err == nil && end.Stdout != "one" {
		err = fmt.Errorf("the child got %q", end.Stdout)
	}
	return err
}

// twoWriters write pieces of their own letter. Each piece must arrive whole, as
// often as it was accepted.
func twoWriters(ctx context.Context, p *probe) error {
	const pieces, size = 30, 10000 // a piece is longer than what a pipe takes at once
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for w := range 2 {
		wg.Go(func() {
			piece := data(strings.Repeat(string(rune('a'+w)), size), false)
			for range pieces {
				errs[w] = errors.Join(errs[w], p.expect(ctx, "POST", execPath(id, "/stdin"), piece, is(200)))
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"signal":"eof"}`, is(200)); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err != nil {
		return err
	}
	if len(end.Stdout) != 2*pieces*size {
		return fmt.Errorf("%d bytes arrived of %d", len(end.Stdout), 2*pieces*size)
	}
	for i := 0; i < len(end.Stdout); i += size {
		if piece := end.Stdout[i : i+size]; strings.Trim(piece, piece[:1]) != "" {
			return fmt.Errorf("the piece at %d is mixed", i)
		}
	}
	return nil
}

// endsDuringWrite ends the child while a write waits for it: the write is
// answered.
func endsDuringWrite(ctx context.Context, p *probe) error {
	id := p.id()
	// It reads one byte of the write, which shows that the write is under way,
	// says so, and ends when it is told.
	if err := p.start(ctx, id, script("head -c 1 >/dev/null; echo reading; exec sleep 300").with("stdin", true)); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		answered <- p.expect(ctx, "POST", execPath(id, "/stdin"), data(strings.Repeat("x", 1<<20), false), refused(api.StdinClosed))
	}()
	if _, err := p.output(ctx, id); err != nil {
		return errors.Join(err, <-answered)
	}
	_, err := p.kill(ctx, id)
	return errors.Join(err, <-answered)
}

// suspension is E12 from outside; jumps of the clock and long suspensions are
// played by the clock in the tests.
func suspension() Row {
	return Row{
		ID: "E12", Name: "the daemon stopped and resumed in mid-run",
		Expect:       "the run goes on and loses nothing",
		Requirements: []string{"EXEC-18", "EXEC-35", "OUT-6"},
		Cases:        []Case{{Name: "stopped in mid-run", Do: stoppedInMidRun}},
	}
}

func stoppedInMidRun(ctx context.Context, p *probe) error {
	if p.PID == 0 {
		return skipped("the daemon's process is not known")
	}
	id := p.id()
	// The child fills its pipes, so that it waits for the daemon.
	text := "echo ready; read line; head -c 300000 /dev/zero; echo end"
	if err := p.start(ctx, id, script(text).with("stdin", true).with("timeout_sec", 3600)); err != nil {
		return err
	}
	reader, err := p.attach(ctx, id, 0)
	if err != nil {
		return err
	}
	defer reader.Close()
	if _, err := p.output(ctx, id); err != nil {
		return err
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), data("go\n", true), is(200)); err != nil {
		return err
	}
	if err := syscall.Kill(p.PID, syscall.SIGSTOP); err != nil {
		return skipped("the daemon cannot be stopped: " + err.Error())
	}
	err = await(ctx, "the daemon has stopped", func() (bool, error) {
		data, err := os.ReadFile(procFile(p.PID, "stat"))
		return strings.Contains(string(data), ") T "), err
	})
	if err := errors.Join(err, syscall.Kill(p.PID, syscall.SIGCONT)); err != nil {
		return err
	}
	t, err := reader.events(0)
	if err != nil {
		return err
	}
	if t.exit.Offset != 300010 || t.gapBytes != 0 || t.exit.TimedOut || t.exit.ExitCode == nil || *t.exit.ExitCode != 0 {
		return fmt.Errorf("%d bytes in gaps, %+v", t.gapBytes, t.exit)
	}
	return nil
}
