package client_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"microvms/agentd/api"
	"microvms/client"
)

// outcomeOf runs one world to completion. The command's timeout is 1 s and the
// grace 5 s, so that the client's deadline is at 6 s of the bubble's time.
func outcomeOf(t *testing.T, w *world) (res *client.RunResult, pieces int, err error) {
	synctest.Test(t, func(t *testing.T) {
		retry := client.DefaultRetry()
		retry.Reconnects = 0
		session := w.server().Session(t, client.WithRetry(retry))
		opts := client.RunOptions{Grace: 5 * time.Second}
		if w.sink {
			opts.Output = func(*client.Output) bool { pieces++; return true }
		}
		timeout := 1.0
		res, err = session.RunToCompletion(t.Context(), api.StartRequest{Command: []string{"x"}, TimeoutSec: &timeout}, opts)
		session.Close()
	})
	return res, pieces, err
}

// wantKind is what a world must lead to, derived from its choices alone.
func wantKind(w *choices) string {
	switch {
	case w.start == "failed":
		return "error"
	case w.wait == "fatal":
		return "error"
	case w.wait == "deadline" && w.grace == "ok":
		return "deadline"
	case w.wait == "deadline":
		return "synthesized"
	}
	return "plain"
}

// Every fate of a command, with every choice of a daemon that can matter, leads
// to the one outcome that BIND-6 to BIND-10 ask for. The method is exhaustive
// enumeration of M5's world (models facts), in the bubble's time.
func TestRunToCompletionDecisions(t *testing.T) {
	for _, id := range []string{"BIND-6", "BIND-7", "BIND-8", "BIND-9", "BIND-10"} {
		t.Attr("requirement", id)
	}
	seen := map[string]int{}
	for _, c := range allChoices() {
		w := &world{choices: c}
		res, pieces, err := outcomeOf(t, w)
		seen[wantKind(&c)]++
		for _, problem := range judgeRun(w, res, pieces, err) {
			t.Errorf("%s: %s\n  requests %v, error %v, result %+v", &c, problem, w.log, err, res)
		}
	}
	// By hand, of the 32 fates × sink × truncated: 14 × (1 + 4); 32 + 16 + 14 + 16;
	// and 62 ways to the deadline × 3 kills × 1 or 2 acks.
	want := map[string]int{"plain": 70, "error": 78, "deadline": 186, "synthesized": 372}
	for kind, n := range want {
		if seen[kind] != n {
			t.Errorf("%d worlds lead to %s, want %d", seen[kind], kind, n)
		}
	}
}

// judgeRun says what is wrong with the outcome of a world.
func judgeRun(w *world, res *client.RunResult, pieces int, err error) (problems []string) {
	check := func(ok bool, problem string) {
		if !ok {
			problems = append(problems, problem)
		}
	}
	kind := wantKind(&w.choices)
	check((res == nil) != (err == nil), "BIND-8: not exactly one of result and error")
	check((kind == "error") == (err != nil), "BIND-8: error and result confused")
	if w.sink && w.start == "ok" {
		check(pieces == 1, "the callback did not get the one piece of output")
	}
	atDeadline := kind == "deadline" || kind == "synthesized"
	kill, ack := slices.Index(w.log, "kill"), slices.Index(w.log, "ack")
	check(w.count("kill") == map[bool]int{true: 1}[atDeadline], "BIND-9: a kill exactly at the client's deadline")
	if atDeadline && w.exitAck != "failed" {
		check(ack < 0 || kill < ack, "BIND-9: acked before the kill")
	}
	if w.stream == "cut" && kind == "plain" {
		check(w.count("poll") > 0 && w.count("ack") == 1, "BIND-8: a cut is followed by wait and ack")
	}
	if err != nil || res == nil {
		return problems
	}
	check((res.ClientDeadline != nil) == atDeadline, "BIND-9: the deadline is not reported")
	check(res.Synthesized == (kind == "synthesized"), "BIND-10: synthesized exactly when the ack after the kill failed")
	if atDeadline && res.ClientDeadline != nil {
		check(string(res.ClientDeadline.Kill) == w.kill, "BIND-9: the kill's outcome is wrong")
		check((res.ClientDeadline.AckErr != nil) == res.Synthesized, "BIND-10: the failure is not named")
	}
	code := w.fate.wantCode
	if res.Synthesized || (atDeadline && w.kill == "Signalled") {
		code = 124
	}
	check(res.POSIXCode() == code, "BIND-6: wrong code")
	if !res.Synthesized && w.exitAck != "lost" {
		check(res.Outcome.Stdout == "hi", "the output is missing")
	}
	check(res.OutputUnknown == (res.Synthesized || w.exitAck == "lost"), "unknown output not marked")
	for prefix, want := range map[string]bool{
		"output truncated": w.truncated && !res.Synthesized,
		"daemon deadline":  w.fate.outcome.TimedOut && !res.Synthesized,
		"client deadline":  atDeadline,
		"synthesized":      res.Synthesized,
		"writers alive":    false,
	} {
		n := 0
		for _, note := range res.Notes() {
			if strings.HasPrefix(note, prefix) {
				n++
			}
		}
		check(n == map[bool]int{true: 1}[want], "BIND-7: note "+prefix)
	}
	return problems
}

// The judge of the decisions is itself tested: a wrong outcome of each kind
// must be found.
func TestRunJudgeFindsWrongOutcomes(t *testing.T) {
	base := choices{fate: fates[0], start: "ok", wait: "deadline", kill: "Signalled", grace: "failed"}
	good := func() (*world, *client.RunResult) {
		w := &world{choices: base, log: []string{"start", "poll", "kill", "poll"}}
		return w, &client.RunResult{Synthesized: true, OutputUnknown: true,
			ClientDeadline: &client.ClientDeadline{Kill: client.KillSignalled, AckErr: errors.New("x")}}
	}
	if w, res := good(); len(judgeRun(w, res, 0, nil)) != 0 {
		t.Fatalf("the right outcome is refused: %v", judgeRun(w, res, 0, nil))
	}
	for name, spoil := range map[string]func(*world, *client.RunResult){
		"BIND-10": func(_ *world, r *client.RunResult) { r.Synthesized = false },
		"BIND-9":  func(w *world, _ *client.RunResult) { w.log = []string{"start", "poll", "ack", "kill"} },
		"BIND-6":  func(w *world, r *client.RunResult) { r.Synthesized, r.ClientDeadline = false, nil; w.fate.wantCode = 3 },
		"BIND-7":  func(w *world, r *client.RunResult) { w.truncated, w.grace, r.Synthesized = true, "ok", false },
	} {
		w, res := good()
		spoil(w, res)
		if !slices.ContainsFunc(judgeRun(w, res, 0, nil), func(p string) bool { return strings.HasPrefix(p, name) }) {
			t.Errorf("a breach of %s is not found: %v", name, judgeRun(w, res, 0, nil))
		}
	}
	w, res := good()
	if got := judgeRun(w, res, 0, errors.New("x")); len(got) == 0 || !strings.HasPrefix(got[0], "BIND-8") {
		t.Errorf("a result beside an error is not found: %v", got)
	}
}

// A command whose output another process still holds open is noted.
func TestRunNotesWriters(t *testing.T) {
	t.Attr("requirement", "BIND-7")
	res := client.RunResult{Outcome: api.Outcome{ExitCode: new(int32(0)), WritersMayBeAlive: true}}
	if notes := res.Notes(); len(notes) != 1 || !strings.HasPrefix(notes[0], "writers alive") {
		t.Errorf("notes %q", notes)
	}
	if res.Outcome.WritersMayBeAlive = false; len(res.Notes()) != 0 {
		t.Errorf("a plain result has notes %q", res.Notes())
	}
}

// A timeout that is no number of seconds is refused before anything is started.
func TestRunRefusesTimeout(t *testing.T) {
	t.Attr("requirement", "CLIENT-25")
	w := &world{choices: choices{fate: fates[0], start: "ok"}}
	session := w.server().Session(t)
	for _, sec := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1} {
		_, err := session.RunToCompletion(t.Context(), api.StartRequest{Command: []string{"x"}, TimeoutSec: &sec}, client.RunOptions{})
		if client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%v s: %v", sec, err)
		}
	}
	if len(w.log) != 0 {
		t.Errorf("requests were made: %v", w.log)
	}
}

// Without a timeout the client's deadline is 28800 s; the caller's cancel ends
// the call at once, without a kill.
func TestRunDeadlineAndCancel(t *testing.T) {
	t.Attr("requirement", "BIND-9")
	t.Attr("requirement", "CLIENT-11")
	c := choices{fate: fates[7], start: "ok", wait: "deadline", kill: "Signalled", grace: "ok"}
	synctest.Test(t, func(t *testing.T) {
		w := &world{choices: c}
		session := w.server().Session(t, client.WithRetry(client.Retry{Poll: time.Minute}))
		start := time.Now()
		res, err := session.RunToCompletion(t.Context(), api.StartRequest{Command: []string{"x"}}, client.RunOptions{})
		if err != nil || res.ClientDeadline.After != client.DefaultDeadline || time.Since(start) != client.DefaultDeadline {
			t.Errorf("after %s: %+v, %v", time.Since(start), res, err)
		}
		session.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		w := &world{choices: c}
		session := w.server().Session(t)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(5500*time.Millisecond, cancel)
		start := time.Now()
		res, err := session.RunToCompletion(ctx, api.StartRequest{Command: []string{"x"}}, client.RunOptions{})
		if res != nil || !errors.Is(err, client.ErrInterrupted) || !errors.Is(err, context.Canceled) || w.count("kill") != 0 {
			t.Errorf("%+v, %v, requests %v", res, err, w.log)
		}
		if d := time.Since(start); d != 5500*time.Millisecond {
			t.Errorf("returned %s after the start", d)
		}
		session.Close()
	})
}
