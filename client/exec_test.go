package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api"
	"microvms/client"
	"microvms/client/microvmtest"
)

// start starts an argument vector with a fresh id.
func start(t *testing.T, s *client.Session, args ...string) string {
	t.Helper()
	id, err := s.Start(t.Context(), api.StartRequest{Command: args})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// hang runs until it is signalled.
func hang(p *microvmtest.Process) microvmtest.Exit {
	<-p.Context.Done()
	return microvmtest.Exit{}
}

// A caller's id starts one command however often it is sent; a fresh id is
// minted otherwise.
func TestStartIsIdempotent(t *testing.T) {
	t.Attr("requirement", "CLIENT-16")
	srv := microvmtest.New()
	runs := make(chan string, 10)
	srv.Programs["once"] = func(p *microvmtest.Process) microvmtest.Exit { runs <- p.Args[1]; return microvmtest.Exit{} }
	s := srv.Session(t)
	for range 3 {
		id, err := s.Start(t.Context(), api.StartRequest{ExecID: "mine", Command: []string{"once", "stable"}})
		if err != nil || id != "mine" {
			t.Fatalf("id %q, error %v", id, err)
		}
	}
	if a, b := start(t, s, "once", "fresh"), start(t, s, "once", "fresh"); a == b {
		t.Errorf("the same id %q twice", a)
	}
	counts := map[string]int{}
	for range 3 {
		counts[<-runs]++
	}
	if counts["stable"] != 1 || counts["fresh"] != 2 || len(runs) != 0 {
		t.Errorf("runs: %v and %d more", counts, len(runs))
	}
}

// Wait polls at once, then after pauses that double up to a second, swallows what is retryable, and at
// its deadline names the phase.
func TestWaitPolls(t *testing.T) {
	t.Attr("requirement", "CLIENT-14")
	t.Attr("requirement", "CLIENT-15")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["hang"] = hang
		var polls []time.Duration
		began := time.Now()
		fail := 0
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet {
				polls = append(polls, time.Since(began))
				if fail > 0 {
					fail--
					w.WriteHeader(http.StatusBadGateway)
					return
				}
			}
			next.ServeHTTP(w, r)
		}
		s := srv.Session(t)
		id := start(t, s, "hang")
		fail = 2
		_, err := s.Wait(t.Context(), id, 3500*time.Millisecond)
		if !errors.Is(err, client.ErrTimeout) || client.WireKindOf(err) != client.WireExecTimeout || !strings.Contains(err.Error(), "running") {
			t.Errorf("error %v", err)
		}
		var want []time.Duration
		for _, ms := range []int{0, 10, 30, 70, 150, 310, 630, 1270, 2270, 3270} {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		if diff := cmp.Diff(want, polls[:len(want)]); diff != "" || time.Since(began) != 3500*time.Millisecond {
			t.Errorf("returned at %s, polled at\n%s", time.Since(began), diff)
		}
		fail = 100
		if _, err := s.Wait(t.Context(), id, 2*time.Second); !errors.Is(err, client.ErrTimeout) || !strings.Contains(err.Error(), "502") {
			t.Errorf("without an answer: %v", err)
		}
		fail = 0
		if _, err := s.Wait(t.Context(), "gone", 0); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("unknown id: %v", err)
		}
		if killed, err := s.Kill(t.Context(), id); !killed || err != nil {
			t.Errorf("kill: %t, %v", killed, err)
		}
		res, err := s.WaitAndAck(t.Context(), id, time.Minute)
		if err != nil || res.Phase != api.PhaseAcked || res.POSIXCode() != 143 || res.Succeeded() {
			t.Errorf("%+v, %v", res, err)
		}
		s.Close()
	})
}

// Ack gives the output once; before the end and a second time it is refused,
// and wait-and-ack of an acked exec has no outcome.
func TestAck(t *testing.T) {
	t.Attr("requirement", "CLIENT-17")
	srv := microvmtest.New()
	defer srv.Close()
	srv.Programs["hang"] = hang
	s := srv.Session(t)
	id := start(t, s, "hang")
	if _, err := s.Ack(t.Context(), id); !errors.Is(err, client.ErrStillRunning) || !errors.Is(err, client.ErrConflict) {
		t.Errorf("ack of a running exec: %v", err)
	}
	id = start(t, s, "echo", "hi")
	if !srv.Wait(t.Context(), id) {
		t.Fatal("echo did not end")
	}
	res, err := s.Ack(t.Context(), id)
	if err != nil || res.Stdout != "hi\n" || !res.Succeeded() || res.Phase != api.PhaseAcked {
		t.Errorf("ack: %+v, %v", res, err)
	}
	if _, err := s.Ack(t.Context(), id); !errors.Is(err, client.ErrAlreadyAcked) || errors.Is(err, client.ErrStillRunning) {
		t.Errorf("second ack: %v", err)
	}
	res, err = s.WaitAndAck(t.Context(), id, 0)
	if err != nil || res.HasOutcome() || !res.Done() || res.Succeeded() || res.POSIXCode() != 125 {
		t.Errorf("wait-and-ack of an acked exec: %+v, %v", res, err)
	}
}

// A command that ended with code 0 after its deadline did not succeed.
func TestTimedOutIsNoSuccess(t *testing.T) {
	t.Attr("requirement", "BIND-6")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["polite"] = func(p *microvmtest.Process) microvmtest.Exit {
			p.Trap()
			<-p.Terminated()
			return microvmtest.Exit{}
		}
		s := srv.Session(t)
		timeout := 2.5
		id, err := s.Start(t.Context(), api.StartRequest{Command: []string{"polite"}, TimeoutSec: &timeout})
		if err != nil {
			t.Fatal(err)
		}
		res, err := s.WaitAndAck(t.Context(), id, 0)
		if err != nil || res.ExitCode == nil || *res.ExitCode != 0 || res.Succeeded() || res.POSIXCode() != 124 {
			t.Errorf("%+v, %v", res, err)
		}
		s.Close()
	})
}

// Input goes in chunks of 256 KiB with the end on the last one, for any size.
func TestStdinChunks(t *testing.T) {
	t.Attr("requirement", "CLIENT-21")
	for _, size := range []int{0, 1, client.StdinChunkBytes, client.StdinChunkBytes + 1, 2 * client.StdinChunkBytes} {
		srv := microvmtest.New()
		requests := 0
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			if strings.HasSuffix(r.URL.Path, "/stdin") {
				requests++
			}
			next.ServeHTTP(w, r)
		}
		s := srv.Session(t)
		id, err := s.Start(t.Context(), api.StartRequest{Command: []string{"cat"}, Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		input := bytes.Repeat([]byte("x"), size)
		n, err := s.Stdin(t.Context(), id, iotestHalf(input))
		if err != nil || n != int64(size) || requests != max(1, (size+client.StdinChunkBytes-1)/client.StdinChunkBytes) {
			t.Errorf("%d bytes: wrote %d in %d requests, %v", size, n, requests, err)
		}
		srv.Wait(t.Context(), id)
		res, err := s.WaitAndAck(t.Context(), id, 0)
		if err != nil || res.Stdout != string(input) {
			t.Errorf("%d bytes: %d came back, %v", size, len(res.Stdout), err)
		}
	}
}

// iotestHalf reads in odd pieces.
func iotestHalf(data []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(data[:len(data)/3]), bytes.NewReader(data[len(data)/3:]))
}

// The refusals of stdin have their own sentinels; a slow reader is retryable.
func TestStdinRefusals(t *testing.T) {
	t.Attr("requirement", "CLIENT-17")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		srv.Programs["hang"] = hang
		s := srv.Session(t)
		deaf := start(t, s, "hang")
		if _, err := s.WriteStdin(t.Context(), deaf, []byte("x"), false); !errors.Is(err, client.ErrStdinNotRequested) {
			t.Errorf("without stdin: %v", err)
		}
		id, err := s.Start(t.Context(), api.StartRequest{Command: []string{"hang"}, Stdin: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.WriteStdin(t.Context(), id, []byte("x"), false); client.WireKindOf(err) != client.WireRequestTimeout || !client.Retryable(err) {
			t.Errorf("a command that does not read: %v", err)
		}
		if _, err := s.WriteStdin(t.Context(), id, nil, true); err != nil {
			t.Errorf("closing: %v", err)
		}
		if _, err := s.WriteStdin(t.Context(), id, nil, true); !errors.Is(err, client.ErrStdinClosed) {
			t.Errorf("closing again: %v", err)
		}
		if n, err := s.Stdin(t.Context(), id, strings.NewReader("late")); n != 0 || err != nil {
			t.Errorf("copying to a closed input: %d, %v", n, err)
		}
		for _, id := range []string{deaf, id} {
			s.Kill(t.Context(), id)
		}
		s.Close()
	})
}
