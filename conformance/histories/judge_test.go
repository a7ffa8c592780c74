package histories

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sequence gives operations one place each in time, one after another.
func sequence(ops ...Operation) []Operation {
	for i := range ops {
		ops[i].Call = int64(20 * i)
		if ops[i].Return >= 0 {
			ops[i].Return = ops[i].Call + 10
		}
	}
	return ops
}

func number(n int32) *int32 { return &n }

func hook(token string, env, status int) Operation {
	return Operation{Kind: Hook, Token: token, Env: env, Answer: &Answer{Status: status}}
}

func start(child Child) Operation {
	return Operation{Kind: Start, Exec: "x1", Token: HarnessToken, Child: child, Answer: &Answer{Status: 200, Phase: "running"}}
}

func poll(a Answer) Operation {
	a.Status = 200
	return Operation{Kind: Poll, Exec: "x1", Token: HarnessToken, Answer: &a}
}

func running() Operation { return poll(Answer{Phase: "running"}) }

// exited is a result with the exit code that a child gives by itself.
func exited(stdout string) Operation {
	return poll(Answer{Phase: "exited", Outcome: true, ExitCode: number(ExitCode), Stdout: stdout})
}

func killed(stdout string) Operation {
	return poll(Answer{Phase: "exited", Outcome: true, Signal: number(15), Stdout: stdout})
}

func ack(stdout string) Operation {
	o := exited(stdout)
	o.Kind, o.Answer.Phase = Ack, "acked"
	return o
}

func write(text string) Operation {
	return Operation{Kind: Stdin, Exec: "x1", Token: HarnessToken, Text: text, Answer: &Answer{Status: 200, Written: len(text) + 1}}
}

func eof() Operation {
	return Operation{Kind: Stdin, Exec: "x1", Token: HarnessToken, EOF: true, Answer: &Answer{Status: 200}}
}

func kill(yes bool) Operation {
	return Operation{Kind: Kill, Exec: "x1", Token: HarnessToken, Answer: &Answer{Status: 200, Killed: yes}}
}

func read(offset uint64, a Answer) Operation {
	a.Status = 200
	return Operation{Kind: Stream, Exec: "x1", Token: HarnessToken, Offset: offset, Answer: &a}
}

func refusal(o Operation, status int, code string) Operation {
	o.Answer = &Answer{Status: status, Code: code}
	return o
}

// after puts operations behind those that overlap, one after another.
func after(ops ...Operation) []Operation {
	for i := range ops {
		ops[i].Call, ops[i].Return = 2000+20*int64(i), 2010+20*int64(i)
	}
	return ops
}

func as(u User, o Operation) Operation {
	o.User = u
	return o
}

func unknown(o Operation) Operation {
	o.Answer, o.Cut = nil, CutAfter
	return o
}

// open is unknown, and nobody saw it return.
func open(o Operation) Operation {
	o = unknown(o)
	o.Return = -1
	return o
}

// judged are small histories whose verdict is known. The planted ones are what
// a daemon with a real mistake would show.
var judged = []struct {
	name  string
	scope Scope
	ops   []Operation
	want  Verdict
}{
	{"a sound life", ByExec, sequence(start(Echo), start(Echo), running(), write("w001"), eof(), exited("env1w001"), ack("env1w001"),
		poll(Answer{Phase: "acked"})), Linearizable},
	{"a sound kill", ByExec, sequence(start(Sleeper), kill(true), killed("env1"), kill(false)), Linearizable},
	{"a sound gap", ByExec, sequence(start(Echo), write("w001"), write("w002"), read(0, Answer{Lost: 4, Bytes: "w001w002"})), Linearizable},
	{"a lost start may still happen", ByExec, sequence(unknown(start(Quick)), exited("env1")), Linearizable},
	{"a start that nobody saw return may happen late", ByExec, sequence(open(start(Quick)), refusal(running(), 404, "unknown_exec"),
		exited("env1")), Linearizable},
	{"a start that nobody saw return may never happen", ByExec, sequence(open(start(Quick)), refusal(running(), 404, "unknown_exec"),
		refusal(running(), 404, "unknown_exec")), Linearizable},

	{"a start that returned happens late", ByExec, sequence(unknown(start(Quick)), refusal(running(), 404, "unknown_exec"),
		exited("env1")), NotLinearizable},

	{"double spawn", ByExec, sequence(start(Quick), start(Quick), exited("env1env1")), NotLinearizable},
	{"lost output", ByExec, sequence(start(Echo), write("w001"), eof(), exited("env1")), NotLinearizable},
	{"output that nobody sent", ByExec, sequence(start(Echo), eof(), exited("env1w001")), NotLinearizable},
	{"input out of order", ByExec, sequence(start(Echo), write("w001"), write("w002"), eof(), exited("env1w002w001")), NotLinearizable},
	{"an ack that loses data", ByExec, sequence(start(Quick), read(0, Answer{Bytes: "env1"}), ack("")), NotLinearizable},
	{"an ack that does nothing", ByExec, sequence(start(Quick), ack("env1"), exited("env1")), NotLinearizable},
	{"an ack while it runs", ByExec, sequence(start(Sleeper), ack("env1")), NotLinearizable},
	{"a result taken back", ByExec, sequence(start(Quick), exited("env1"), running()), NotLinearizable},
	{"an exec forgotten", ByExec, sequence(start(Quick), refusal(running(), 404, "unknown_exec")), NotLinearizable},
	{"an exec out of nowhere", ByExec, sequence(running()), NotLinearizable},
	{"a refused name", ByExec, sequence(refusal(start(Nobody), 400, "unknown_user"), refusal(running(), 404, "unknown_exec")), Linearizable},
	{"a refused name registered", ByExec, sequence(refusal(start(Nobody), 400, "unknown_user"), running()), NotLinearizable},
	{"an unknown name started", ByExec, sequence(start(Nobody), exited("env1")), NotLinearizable},
	{"an own name started", ByExec, sequence(as(OwnUser, start(Quick)), exited("env1")), Linearizable},
	{"an unknown name beside a known id", ByExec, sequence(start(Quick), as(UnknownUser, start(Quick)), exited("env1")), Linearizable},
	{"a refusal shared", ByExec, beside(as(UnknownUser, refusal(start(Quick), 400, "unknown_user")), as(OwnUser, refusal(start(Quick), 400, "unknown_user"))), Linearizable},
	{"a refusal shared before the id is known", ByExec, beside(as(UnknownUser, refusal(start(Quick), 400, "unknown_user")), refusal(start(Quick), 400, "unknown_user"),
		start(Quick), exited("env1")), Linearizable},
	{"a lost start that shared a refusal", ByExec, append(beside(as(UnknownUser, refusal(start(Quick), 400, "unknown_user")), unknown(start(Quick))),
		after(refusal(running(), 404, "unknown_exec"))...), Linearizable},
	{"a lost start that shared no refusal", ByExec, append(beside(start(Quick), unknown(start(Quick))),
		after(refusal(running(), 404, "unknown_exec"))...), NotLinearizable},
	{"an unknown name started while others wait", ByExec, beside(as(UnknownUser, start(Quick)), as(OwnUser, refusal(start(Quick), 400, "unknown_user"))), NotLinearizable},
	{"a refusal shared with nobody", ByExec, sequence(as(UnknownUser, refusal(start(Quick), 400, "unknown_user")),
		as(OwnUser, refusal(start(Quick), 400, "unknown_user"))), NotLinearizable},
	{"a known id refused for its name", ByExec, sequence(start(Quick), as(UnknownUser, refusal(start(Quick), 400, "unknown_user"))), NotLinearizable},
	{"a refused name that spawned", ByExec, sequence(as(UnknownUser, refusal(start(Quick), 400, "unknown_user")), running()), NotLinearizable},
	{"a lost start of an unknown name that spawned", ByExec, sequence(as(UnknownUser, unknown(start(Quick))), running()), NotLinearizable},
	{"a refused spawn registered", ByExec, sequence(refusal(start(Broken), 500, "spawn_failed"), running()), NotLinearizable},
	{"a kill that says nothing was there", ByExec, sequence(start(Sleeper), kill(false)), NotLinearizable},
	{"an end by itself without end of input", ByExec, sequence(start(Echo), exited("env1")), NotLinearizable},
	{"a pipe closed by nobody", ByExec, sequence(start(Echo), refusal(write("w001"), 410, "stdin_closed")), NotLinearizable},
	{"stdin taken without a pipe", ByExec, sequence(start(Sleeper), write("w001")), NotLinearizable},
	{"a gap over bytes that the ring holds", ByExec, sequence(start(Echo), write("w001"), read(0, Answer{Lost: 4, Bytes: "w001"})), NotLinearizable},
	{"a stream that shows other bytes", ByExec, sequence(start(Sleeper), read(0, Answer{Bytes: "env2"})), NotLinearizable},
	{"an exit event before the last byte", ByExec, sequence(start(Echo), write("w001"), eof(),
		read(0, Answer{Bytes: "env1", Exited: true, Total: 4, ExitCode: number(ExitCode)})), NotLinearizable},

	{"a sound bootstrap", Whole, sequence(refusal(start(Quick), 503, ""), hook(HarnessToken, 1, 200), hook(HarnessToken, 2, 200),
		hook(AttackerToken, 2, 409), start(Quick), exited("env1")), Linearizable},
	{"token replaced", Whole, sequence(hook(HarnessToken, 1, 200), hook(AttackerToken, 1, 200)), NotLinearizable},
	{"environment of a repetition", Whole, sequence(hook(HarnessToken, 1, 200), hook(HarnessToken, 2, 200), start(Quick), exited("env2")), NotLinearizable},
	{"control before bootstrap", Whole, sequence(start(Quick), hook(HarnessToken, 1, 200)), NotLinearizable},
	{"a stale refusal", Whole, sequence(hook(HarnessToken, 1, 200), refusal(start(Quick), 503, "")), NotLinearizable},
	{"a wrong bearer let in", Whole, sequence(hook(AttackerToken, 1, 200), start(Quick)), NotLinearizable},
	{"a hook that the log lost", Whole, sequence(hook(HarnessToken, 1, 200),
		Operation{Kind: Health, Answer: &Answer{Status: 200, Bootstrapped: true}},
		Operation{Kind: Health, Answer: &Answer{Status: 200, Bootstrapped: true, Hooks: 0}}), NotLinearizable},
}

func planted(scope Scope, ops []Operation) *History {
	return &History{Name: "planted", Scope: scope, Ring: Ring, Greet: "env1", Operations: append([]Operation(nil), ops...)}
}

func TestJudgeFindsPlantedFaults(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	t.Attr("requirement", "CONF-1")
	for _, tc := range judged {
		t.Run(tc.name, func(t *testing.T) {
			got, text := Judge(planted(tc.scope, tc.ops))
			if got != tc.want {
				t.Errorf("the judge says %q (%s), want %q", got, text, tc.want)
			}
			if (text == "") != (got == Linearizable) {
				t.Errorf("verdict %q with text %q", got, text)
			}
		})
	}
}

// TestFailingHistoriesAreSaved saves a failing history, reads it back, judges it again and looks for its drawing.
func TestFailingHistoriesAreSaved(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	dir := t.TempDir()
	h := planted(ByExec, sequence(start(Quick), exited("env1env1")))
	path, err := h.save(dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(h, again); diff != "" {
		t.Errorf("the history changed on its way (-saved +read):\n%s", diff)
	}
	if v, _ := Judge(again); v != NotLinearizable {
		t.Errorf("the saved history is judged %q", v)
	}
	drawing, err := os.ReadFile(filepath.Join(dir, "planted.x1.html"))
	if err != nil || !strings.Contains(string(drawing), "<html") {
		t.Errorf("the drawing is missing: %v", err)
	}
}

// TestFailuresReachTheResult runs the judge's verdicts through the result that verification reads.
func TestFailuresReachTheResult(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	c := Config{FailDir: t.TempDir()}
	r := &Result{Requirements: map[string]int64{}}
	for _, tc := range judged {
		h := planted(tc.scope, tc.ops)
		v, text := Judge(h)
		if err := c.keep(r, h, v, text); err != nil {
			t.Fatal(err)
		}
	}
	bad := 0
	for _, tc := range judged {
		if tc.want == NotLinearizable {
			bad++
		}
	}
	if len(r.Failures) != bad || r.Histories != int64(len(judged)) || r.Open == 0 {
		t.Errorf("%d failures of %d histories, %d open; want %d of %d", len(r.Failures), r.Histories, r.Open, bad, len(judged))
	}
	if r.Requirements["AGENTD-2"] == 0 || r.Requirements["EXEC-1"] == 0 {
		t.Errorf("the sound histories show nothing: %v", r.Requirements)
	}
}

func TestOverlappingIsCounted(t *testing.T) {
	t.Attr("requirement", "VERIFY-23")
	if got := overlapping([]Drawn{
		{Client: 0, Call: 0, Return: 10}, {Client: 1, Call: 5, Return: 7}, {Client: 1, Call: 20, Return: 30}, {Client: 0, Call: 31, Return: -1}, {Client: 1, Call: 90, Return: 95},
	}); got != 4 {
		t.Errorf("%d operations overlap, want 4", got)
	}
}
