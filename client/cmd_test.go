package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"microvms/client"
	"microvms/client/microvmtest"
)

func asExit(err error, exit **client.ExitError) bool { return errors.As(err, exit) }

// both writes to both streams and exits as asked.
func both(p *microvmtest.Process) microvmtest.Exit {
	fmt.Fprint(p.Stdout, "out ")
	fmt.Fprint(p.Stderr, "err ")
	fmt.Fprintf(p.Stdout, "%s %s", p.Dir, p.Env["K"])
	code := 0
	_, _ = fmt.Sscan(p.Args[1], &code)
	return microvmtest.Exit{Code: code}
}

// Output and CombinedOutput give what os/exec would; a non-zero code is an
// ExitError that carries standard error.
func TestCmdOutput(t *testing.T) {
	t.Attr("requirement", "CLIENT-28")
	srv := microvmtest.New()
	srv.Programs["both"] = both
	s := srv.Session(t)
	cmd := s.Command(t.Context(), "both", "0")
	cmd.Dir, cmd.Env = "/d", []string{"K=1", "K=2"}
	if out, err := cmd.Output(); string(out) != "out /d 2" || err != nil || !cmd.ProcessState.Success() {
		t.Errorf("output %q, error %v", out, err)
	}
	out, err := s.Command(t.Context(), "both", "7").Output()
	var exit *client.ExitError
	if !asExit(err, &exit) || exit.ExitCode() != 7 || string(exit.Stderr) != "err " || string(out) != "out  " || err.Error() != "exit status 7" {
		t.Errorf("output %q, error %v", out, err)
	}
	if out, err := s.Command(t.Context(), "both", "0").CombinedOutput(); string(out) != "out err  " || err != nil {
		t.Errorf("combined output %q, error %v", out, err)
	}
}

// StdinPipe feeds the command; after its end writes fail instead of blocking.
func TestCmdStdinPipe(t *testing.T) {
	srv := microvmtest.New()
	s := srv.Session(t)
	cmd := s.Command(t.Context(), "cat")
	var out strings.Builder
	cmd.Stdout = &out
	w, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		fmt.Fprint(w, i)
	}
	w.Close()
	if err := cmd.Wait(); err != nil || out.String() != "012" {
		t.Errorf("output %q, error %v", out.String(), err)
	}
	cmd = s.Command(t.Context(), "true")
	if w, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if _, err := w.Write([]byte("late")); !errors.Is(err, client.ErrStdinClosed) {
		t.Errorf("a write after the end: %v", err)
	}
}

// A reader that fails ends the input and is reported; an input that the command
// does not take ends the waiting, since the rest can never be sent.
func TestCmdInputFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["hang"] = hang
		s := srv.Session(t)
		broken := errors.New("broken")
		cmd := s.Command(t.Context(), "cat")
		cmd.Stdin = io.MultiReader(strings.NewReader("part"), iotest.ErrReader(broken))
		if err := cmd.Run(); !errors.Is(err, broken) || !cmd.ProcessState.Success() {
			t.Errorf("failing reader: %v", err)
		}
		cmd = s.Command(t.Context(), "hang")
		cmd.Stdin = strings.NewReader("not wanted")
		begin := time.Now()
		if err := cmd.Run(); client.WireKindOf(err) != client.WireRequestTimeout || time.Since(begin) != srv.StdinTimeout {
			t.Errorf("input not taken: after %s: %v", time.Since(begin), err)
		}
		// Nor does a reader that never ends keep Wait from returning.
		r, w := io.Pipe()
		cmd = s.Command(t.Context(), "true")
		cmd.Stdin = r
		if err := cmd.Run(); err != nil {
			t.Errorf("endless reader: %v", err)
		}
		w.Close()
		s.Close()
		srv.Close()
	})
}

// A Cmd that cannot be started says why; one runs only once.
func TestCmdMisuse(t *testing.T) {
	srv := microvmtest.New()
	s := srv.Session(t)
	for name, spoil := range map[string]func(*client.Cmd){
		"no program":       func(c *client.Cmd) { c.Args = nil },
		"empty program":    func(c *client.Cmd) { c.Args = []string{""} },
		"bad environment":  func(c *client.Cmd) { c.Env = []string{"novalue"} },
		"negative timeout": func(c *client.Cmd) { c.Timeout = -1 },
		"unreachable id":   func(c *client.Cmd) { c.ID = "start" },
	} {
		cmd := s.Command(t.Context(), "true")
		spoil(cmd)
		if err := cmd.Run(); client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.Command(t.Context(), "no-such-program").Run(); !errors.Is(err, client.ErrSpawn) {
		t.Errorf("unknown program: %v", err)
	}
	cmd := s.Command(t.Context(), "true")
	if err := cmd.Wait(); err == nil {
		t.Error("Wait before Start succeeds")
	}
	if err := cmd.Run(); err != nil {
		t.Error(err)
	}
	if err := cmd.Start(); err == nil {
		t.Error("a second Start succeeds")
	}
	if err := cmd.Kill(t.Context()); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("killing what has ended: %v", err)
	}
}

// Lost output is never passed over: a gap is ErrGap, a cut that cannot be mended
// ErrTruncated, a writer that fails its own error; the exit error stays beside.
func TestCmdLostOutput(t *testing.T) {
	t.Attr("requirement", "CLIENT-19")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.RingBytes = 4
		srv.Programs["much"] = func(p *microvmtest.Process) microvmtest.Exit {
			fmt.Fprint(p.Stdout, "0123456789")
			return microvmtest.Exit{Code: 5}
		}
		cut := false
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/stream") {
				synctest.Wait() // the program has written all
				if cut {
					panic(http.ErrAbortHandler)
				}
			}
			next.ServeHTTP(w, r)
		}
		s := srv.Session(t)
		out, err := s.Command(t.Context(), "much").Output()
		var exit *client.ExitError
		if string(out) != "6789" || !errors.Is(err, client.ErrGap) || !asExit(err, &exit) || exit.ExitCode() != 5 {
			t.Errorf("gap: output %q, error %v", out, err)
		}
		cut = true
		out, err = s.Command(t.Context(), "much").Output()
		if len(out) != 0 || !errors.Is(err, client.ErrTruncated) || !asExit(err, &exit) {
			t.Errorf("cut: output %q, error %v", out, err)
		}
		cut = false
		cmd := s.Command(t.Context(), "much")
		cmd.Stdout = failingWriter{}
		if err := cmd.Run(); !errors.Is(err, io.ErrShortWrite) || cmd.ProcessState.ExitCode() != 5 {
			t.Errorf("failing writer: %v", err)
		}
		s.Close()
	})
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Ending the context ends Wait at once. The command goes on, or is killed if
// that was asked for; Close waits for that kill.
func TestCmdCancel(t *testing.T) {
	t.Attr("requirement", "CLIENT-10")
	t.Attr("requirement", "CLIENT-11")
	for _, kill := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			srv := microvmtest.New()
			srv.Programs["stubborn"] = func(p *microvmtest.Process) microvmtest.Exit {
				p.Trap()
				<-p.Context.Done()
				return microvmtest.Exit{Signal: 9}
			}
			s := srv.Session(t)
			ctx, cancel := context.WithCancel(t.Context())
			cmd := s.Command(ctx, "stubborn")
			cmd.Stdout, cmd.KillOnCancel = io.Discard, kill
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Second, cancel)
			begin := time.Now()
			err := cmd.Wait()
			if !errors.Is(err, client.ErrInterrupted) || time.Since(begin) != time.Second {
				t.Errorf("kill %t: after %s: %v", kill, time.Since(begin), err)
			}
			s.Close()
			want := time.Second
			if kill {
				want += srv.KillGrace // it traps SIGTERM, so the kill takes the grace
			}
			if d := time.Since(begin); d != want {
				t.Errorf("kill %t: closed after %s, want %s", kill, d, want)
			}
			ended, stop := context.WithTimeout(t.Context(), time.Millisecond)
			defer stop()
			if srv.Wait(ended, cmd.ID) != kill {
				t.Errorf("kill %t: the command has ended: %t", kill, !kill)
			}
			srv.Close()
		})
	}
}

// The daemon's deadline is an exit error that says so.
func TestCmdTimeout(t *testing.T) {
	t.Attr("requirement", "BIND-6")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["hang"] = hang
		s := srv.Session(t)
		cmd := s.Command(t.Context(), "hang")
		cmd.Timeout = 1500 * time.Millisecond
		err := cmd.Run()
		var exit *client.ExitError
		if !asExit(err, &exit) || !exit.TimedOut() || exit.POSIXCode() != 124 || exit.Signal() != 15 || exit.ExitCode() != -1 {
			t.Errorf("error %v", err)
		}
		if want := "signal: terminated (daemon deadline)"; err.Error() != want {
			t.Errorf("error reads %q, want %q", err, want)
		}
		s.Close()
	})
}
