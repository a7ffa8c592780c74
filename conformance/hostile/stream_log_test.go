package hostile

import (
	"io"
	"log"
	"strings"
	"testing"
)

var discard = log.New(io.Discard, "", 0)

// frames makes a body of events from "name data" lines.
func frames(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		name, data, _ := strings.Cut(l, " ")
		b.WriteString("event: " + name + "\ndata: " + data + "\n\n")
	}
	return b.String()
}

// TestTilingIsJudged feeds the reader of streams with bodies whose offsets do
// not tile.
func TestTilingIsJudged(t *testing.T) {
	const exit = `exit {"exit_code":0,"signal":null,"offset":`
	for _, c := range []struct {
		name, body, fault string
		offset            uint64
	}{
		{"whole", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`, `gap {"from":2,"to":9}`, exit+`9}`), "", 0},
		{"past the end", frames(exit + `9}`), "", 12},
		{"a hole", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`, `output {"offset":3,"stream":"stdout","output":"YWI="}`), "do not continue", 0},
		{"a repetition", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`, `output {"offset":1,"stream":"stdout","output":"YWI="}`), "do not continue", 0},
		{"an empty gap", frames(`gap {"from":0,"to":0}`), "does not continue", 0},
		{"a gap elsewhere", frames(`gap {"from":1,"to":2}`), "does not continue", 0},
		{"an exit beyond", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`, exit+`3}`), "the exit is at offset 3", 0},
		{"an exit before", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`, exit+`1}`), "the exit is at offset 1", 0},
		{"no exit", frames(`output {"offset":0,"stream":"stdout","output":"YWI="}`), "without an exit event", 0},
		{"an unknown event", frames(`more {}`), "unknown event", 0},
		{"no base64", frames(`output {"offset":0,"stream":"stdout","output":"?"}`), "cannot read", 0},
	} {
		_, err := readStream(strings.NewReader(c.body), c.offset)
		switch {
		case c.fault == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%s: %v, want %q", c.name, err, c.fault)
		}
	}
}

// TestLogsAreJudged feeds the judge of logs with what a careless daemon writes.
func TestLogsAreJudged(t *testing.T) {
	for _, c := range []struct {
		log    string
		faults int
	}{
		{"", 0},
		{`{"msg":"a"}` + "\n" + `{"msg":"a\u001b[2J"}` + "\n", 0},
		{`{"msg":"` + strings.Repeat("a", 1<<10) + `"}` + "\n", 1},
		{"{\"msg\":\"\x1b[2J\"}\n", 1},
		{"{\"msg\":\"\x00\"}\n", 1},
		{"{\"msg\":\"\xff\"}\n", 1},
		{"2026 plain text\n", 1},
		{"panic\n" + strings.Repeat("x", 2000) + "\x7f\n", 4},
	} {
		if got := judgeLog([]byte(c.log)); len(got) != c.faults {
			t.Errorf("%.40q: %q, want %d faults", c.log, got, c.faults)
		}
	}
}
