package executor

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
)

func TestLogRecords(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-25")
	for line, want := range map[string]string{
		`{"level":"debug","message":"m"}`:                `{"message":"m","level":"debug"}`,
		`{ "b" : [1, 2.50] , "level":"WARN", "a":null }`: `{"b":[1,2.50],"a":null,"level":"warn"}`,
		`{"level":"warning"}`:                            `{"level":"warn"}`,
		`{"level":"error","level":"trace"}`:              `{"level":"trace"}`,
		`{"level":"loud"}`:                               `{"level":"info"}`,
		`{"level":7}`:                                    `{"level":"info"}`,
		`{}`:                                             `{"level":"info"}`,
		`{"a":1,"b":2,"a":3}`:                            `{"a":3,"b":2,"level":"info"}`,
		`{"\u006cevel":"error","x":"\ud83d\ude00"}`:      `{"x":"\ud83d\ude00","level":"error"}`,
		`{"a":{"level":"error"}}`:                        `{"a":{"level":"error"},"level":"info"}`,
	} {
		if rec, _ := record([]byte(line), true); string(rec) != want+"\n" {
			t.Errorf("%s became\n%swant\n%s", line, rec, want)
		}
	}
}

func TestOtherLogLinesAreKeptAsText(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-26")
	for line, text := range map[string]string{
		`plain "text"`: `plain \"text\"`, `[1]`: `[1]`, `{"a":1} {}`: `{\"a\":1} {}`, `{"a":}`: `{\"a\":}`,
		"{\"a\":\"\xff\"}": "{\\\"a\\\":\\\"\uFFFD\\\"}", `3`: `3`,
	} {
		want := `{"level":"info","message":"genvm log","line":"` + text + `"}` + "\n"
		if rec, l := record([]byte(line), true); string(rec) != want || l != levelInfo {
			t.Errorf("%q became\n%swant\n%s", line, rec, want)
		}
	}
	if rec, _ := record([]byte(`{"a":1}`), false); !strings.Contains(string(rec), "genvm log") {
		t.Errorf("the beginning of a long line was taken for a whole object: %s", rec)
	}
}

func TestLogOfARun(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-24")
	o := run(t, newLauncher(t, nil), request("log=", "log=  ", "log-lines=3", `log={"level":"warn","x":1}`, "log-raw="+hex.EncodeToString([]byte("  no end  "))))
	want := `{"n":1,"level":"debug"}` + "\n" + `{"n":2,"level":"debug"}` + "\n" + `{"n":3,"level":"debug"}` + "\n" +
		`{"x":1,"level":"warn"}` + "\n" + `{"level":"info","message":"genvm log","line":"no end"}` + "\n"
	if o.log != want {
		t.Errorf("log\n%swant\n%s", o.log, want)
	}
}

// TestLogIsTheSameHoweverItIsCut cuts one log at random places.
func TestLogIsTheSameHoweverItIsCut(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-24")
	text := []byte("\n{\"a\":1}\n  text \xff\n\n{\"level\":\"error\"}\nlast")
	whole := &executorLog{mode: msp.DebugUnsafe}
	whole.Write(text)
	want := string(whole.seal())
	if strings.Count(want, "\n") != 4 {
		t.Fatalf("log %q", want)
	}
	for range 1000 {
		l := &executorLog{mode: msp.DebugUnsafe}
		for rest := text; len(rest) > 0; {
			n := 1 + rand.IntN(min(len(rest), 9))
			l.Write(rest[:n])
			rest = rest[n:]
		}
		if got := string(l.seal()); got != want {
			t.Fatalf("log %q, want %q", got, want)
		}
	}
}

func TestSafeLogKeepsTheNewestRecords(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-22")
	l := newLauncher(t, nil)
	for mode, want := range map[msp.DebugMode]int{msp.DebugSafe: 128, msp.DebugSafeUnbounded: 300, msp.DebugUnsafe: 300, msp.DebugUnsafeTracing: 300} {
		req := request("log-lines=300")
		req.DebugMode = mode
		all := records(t, run(t, l, req).log)
		if len(all) != want {
			t.Errorf("mode %s: %d records, want %d", mode, len(all), want)
		}
		for i, r := range all {
			if r["n"] != float64(300-want+1+i) {
				t.Fatalf("mode %s: record %d is %v", mode, i, r)
			}
		}
	}
}

func TestBoundedLogCutsLongLines(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-28")
	line := `{"a":"` + strings.Repeat("x", 3*maxLineBytes) + `"}`
	for mode, want := range map[msp.DebugMode]int{msp.DebugSafe: maxLineBytes, msp.DebugUnsafe: len(line)} {
		l := &executorLog{mode: mode}
		l.Write([]byte(line + "\n{}\n"))
		if n := len(l.line); cap(l.line) > 4*want || n != 0 {
			t.Errorf("mode %s: the line holds %d of %d bytes", mode, n, cap(l.line))
		}
		all := records(t, string(l.seal()))
		if len(all) != 2 {
			t.Fatalf("mode %s: %d records", mode, len(all))
		}
		kept, _ := all[0]["line"].(string)
		if mode == msp.DebugUnsafe {
			kept, _ = all[0]["a"].(string)
			want = 3 * maxLineBytes
		}
		if len(kept) != want {
			t.Errorf("mode %s: %d bytes of the line, want %d", mode, len(kept), want)
		}
	}
}

// TestDisabledLogShowsNoContent sends more lines than are told one by one.
func TestDisabledLogShowsNoContent(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-27")
	var own bytes.Buffer
	l := newLauncher(t, func(c *Config) {
		c.Log = slog.New(slog.NewJSONHandler(&own, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	req := request(`log={"level":"error","secret":"hunter2"}`, "log=hunter2", "log-lines=300", "stdout=hunter2")
	req.DebugMode = msp.DebugDisabled
	o := run(t, l, req)
	if o.exit() != "exited 0" || o.Sizes != [3]uint64{} {
		t.Errorf("%s, sizes %v", o.exit(), o.Sizes)
	}
	if strings.Contains(own.String(), "hunter2") {
		t.Error("the manager's log holds what the executor logged")
	}
	told, levels, sizes := 0, map[string]int{}, []int{}
	for line := range strings.Lines(own.String()) {
		var r struct {
			Msg, Level    string
			ExecutorLevel string `json:"executor_level"`
			GenvmID       int    `json:"genvm_id"`
			Bytes, Lines  int
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		switch r.Msg {
		case "executor log line":
			told++
			levels[r.Level+" "+r.ExecutorLevel]++
			sizes = append(sizes, r.Bytes)
			if r.GenvmID != 1 || r.Bytes == 0 {
				t.Errorf("line %s", line)
			}
		case "executor log lines not told one by one":
			told += r.Lines
		}
	}
	if len(sizes) < 2 || sizes[0] != len(`{"level":"error","secret":"hunter2"}`) || sizes[1] != len("hunter2") {
		t.Errorf("the lines have %v bytes", sizes[:min(len(sizes), 2)])
	}
	if told != 302 || levels["ERROR error"] != 1 || levels["INFO info"] != 1 || levels["DEBUG debug"] != maxForwarded-2 {
		t.Errorf("%d lines were told, by level %v", told, levels)
	}
}

func TestOutputByMode(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-20")
	t.Attr("requirement", "EXECUTOR-23")
	t.Attr("requirement", "EXECUTOR-21")
	l := newLauncher(t, nil)
	for mode, want := range map[msp.DebugMode]int{msp.DebugDisabled: 0, msp.DebugSafe: safeTailBytes, msp.DebugSafeUnbounded: 5000000} {
		req := request("stdout-bytes=5000000", "stderr-bytes=5000000", "exit=0")
		req.DebugMode = mode
		o := run(t, l, req)
		if len(o.stdout) != want || len(o.stderr) != want || o.Sizes[0] != uint64(want) {
			t.Errorf("mode %s: %d and %d bytes, want %d", mode, len(o.stdout), len(o.stderr), want)
		}
		if want > 0 && o.stdout[want-1] != 'a'+byte((5000000-1)%26) {
			t.Errorf("mode %s: the last byte is %q", mode, o.stdout[want-1])
		}
	}
}

// TestSafeOutputIsCutBetweenCharacters prints characters of three bytes, whose
// number does not divide the bound.
func TestSafeOutputIsCutBetweenCharacters(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-21")
	o := run(t, newLauncher(t, nil), request("stdout-bytes=5000000", "stdout-hex="+strings.Repeat("e282ac", 1000), "stdout-bytes="+fmt.Sprint(safeTailBytes-1000), "exit=0"))
	if n := len(o.stdout); n != safeTailBytes-1 || !utf8.ValidString(o.stdout) || !strings.HasPrefix(o.stdout, "€") {
		t.Errorf("%d bytes that begin with %q", n, o.stdout[:6])
	}
}

func TestOutputIsKeptAsItIs(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-23")
	req := request("stdout-hex=ff00fe80", "write stderr wyg=", "exit=0")
	for _, mode := range []msp.DebugMode{msp.DebugSafe, msp.DebugUnsafe} {
		req.DebugMode = mode
		if o := run(t, newLauncher(t, nil), req); o.stdout != "\xff\x00\xfe\x80" || o.stderr != "\xc3\x28" {
			t.Errorf("mode %s: stdout %x, stderr %x", mode, o.stdout, o.stderr)
		}
	}
}

// TestLateLogLinesCount lets a member of the group, and one that left it, log
// after the executor's exit.
func TestLateLogLinesCount(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-29")
	d, l, tab := newDriver(t), newLauncher(t, nil), newTable(t)
	id := tab.start(l, request(d.step("fork", "member"), d.step("fork-escaped", "far"), d.step("control", "leader")))
	all := map[string]*stepped{}
	for range 3 {
		s := d.accept()
		all[s.name] = s
	}
	all["leader"].do(`log={"by":"leader"}`)
	all["leader"].tell("exit 3")
	all["leader"].awaitEnd()
	for { // the exit was observed once the permits are back
		if total, free := tab.Permits(); free == total {
			break
		}
		runtime.Gosched()
	}
	for range 100 {
		all["far"].do("env=NOTHING")
	}
	for _, name := range []string{"far", "member"} {
		all[name].do(`log={"by":"` + name + `"}`)
		all[name].tell("exit 0")
	}
	o := tab.end(id)
	want := `{"by":"leader","level":"info"}` + "\n" + `{"by":"far","level":"info"}` + "\n" + `{"by":"member","level":"info"}` + "\n"
	if o.exit() != "exited 3" || o.log != want {
		t.Errorf("%s, log\n%swant\n%s", o.exit(), o.log, want)
	}
}

// TestHeldLogDelaysTheEndByTheLingerOnly leaves the log open in a process that
// left the group. It can write on after the run's end.
func TestHeldLogDelaysTheEndByTheLingerOnly(t *testing.T) {
	t.Attr("requirement", "EXECUTOR-30")
	d, l := newDriver(t), newLauncher(t, nil)
	tab := &table{t, runs.New(runs.Config{Permits: 1, Linger: 20 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})}
	id := tab.start(l, request(d.step("fork-escaped", "far"), d.step("gate", "leader"), "exit=0"))
	all := map[string]*stepped{}
	for range 2 {
		s := d.accept()
		all[s.name] = s
	}
	all["far"].do("log={}")
	all["leader"].tell("go on")
	if o := tab.end(id); o.exit() != "exited 0" || o.log != "{\"level\":\"info\"}\n" {
		t.Errorf("%s, log %q", o.exit(), o.log)
	}
	all["far"].do("log-lines=10000") // more than a pipe holds: somebody reads it
	all["far"].tell("exit 0")
	all["far"].awaitEnd()
	if err := tab.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
}
