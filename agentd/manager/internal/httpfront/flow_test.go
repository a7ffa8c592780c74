package httpfront

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"microvms/agentd/calldata"
	"microvms/agentd/manager/internal/runs"
)

// ended is a table with one run, which has finished.
type ended struct {
	Table
	finished runs.Finished
	texts    map[runs.Field]string
	ack      error
	acks     int
}

func (e *ended) Wait(_ context.Context, _ runs.ID, until func(runs.Event) bool) (runs.Event, error) {
	ev := runs.Event{Kind: runs.EventFinished, ID: 1, Finished: &e.finished}
	if !until(ev) {
		return ev, errors.New("the end is not what is waited for")
	}
	return ev, nil
}

func (e *ended) Artifact(_ context.Context, _ runs.ID, field runs.Field, offset uint64, limit uint32) (uint64, []byte, error) {
	text, ok := e.texts[field]
	if !ok {
		return 0, nil, runs.ErrUnknown
	}
	to := min(offset+uint64(limit), uint64(len(text)))
	return uint64(len(text)), []byte(text[offset:to]), nil
}

func (e *ended) Ack(context.Context, runs.ID) error { e.acks++; return e.ack }

func metrics(t *testing.T) []byte {
	t.Helper()
	raw, err := calldata.FromJSON([]byte(`{"web":{"b":1,"a":[null,true,-7,"x"]},"llm":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestEndingAsJSON compares the whole status of a run with all that a run can
// bring, one with nothing, and one that was released meanwhile.
func TestEndingAsJSON(t *testing.T) {
	t.Attr("requirement", "ADMIN-27")
	t.Attr("requirement", "ADMIN-29")
	long := strings.Repeat("x", runs.PageBytes+1)
	at := time.UnixMilli(1767225600123)
	full := runs.Finished{FinishedAt: at, Report: runs.Report{
		Consumed: []byte{0, 255}, Metrics: metrics(t), VersionMajor: 1, VersionMinor: 2,
	}}
	texts := map[runs.Field]string{
		runs.Stdout: long, runs.Stderr: "\xff<&>", runs.GenvmLog: `{"z":1,"level":"info"}` + "\n\nnot json\n" + `{"a":2}`,
	}
	empty := map[runs.Field]string{runs.Stdout: "", runs.Stderr: "", runs.GenvmLog: ""}
	const gone = `{"genvm_id":1,"status":null}`
	for name, c := range map[string]struct {
		table ended
		want  string
		acks  int
	}{
		"full": {ended{finished: full, texts: texts}, `{"genvm_id":1,"status":{"finished_at":1767225600123,"stdout":"` + long +
			`","stderr":"` + "\ufffd" + `<&>","genvm_log":[{"z":1,"level":"info"},{"line":"not json"},{"a":2}],` +
			`"metrics":{"llm":{},"web":{"a":[null,true,-7,"x"],"b":1}},"consumed_result":"AP8=","version_major":1,"version_minor":2}}`, 1},
		"empty": {ended{finished: runs.Finished{FinishedAt: at}, texts: empty},
			`{"genvm_id":1,"status":{"finished_at":1767225600123,"stdout":"","stderr":"","genvm_log":[],"metrics":null,` +
				`"consumed_result":null,"version_major":0,"version_minor":0}}`, 1},
		"released before its output was read": {ended{finished: full}, gone, 0},
		"released by another request":         {ended{finished: full, texts: texts, ack: runs.ErrUnknown}, gone, 1},
	} {
		addr, _ := serve(t, func(config *Config) { config.Table = &c.table })
		if status, body := ask(t, addr, "GET", "/genvm/1", ""); status != 200 || body != c.want {
			t.Errorf("%s: %d %s, want %s", name, status, body, c.want)
		}
		if c.table.acks != c.acks {
			t.Errorf("%s: %d acks", name, c.table.acks)
		}
	}
}
