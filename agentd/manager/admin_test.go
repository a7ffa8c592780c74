package manager_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager"
)

// TestAdminRoutes asks each admin route for each of its outcomes that needs no
// run.
func TestAdminRoutes(t *testing.T) {
	for _, id := range []string{"ADMIN-1", "ADMIN-2", "ADMIN-4", "ADMIN-6", "ADMIN-12", "ADMIN-13", "ADMIN-14", "ADMIN-15",
		"ADMIN-16", "ADMIN-17", "ADMIN-19", "ADMIN-20", "ADMIN-22", "ADMIN-23", "ADMIN-24"} {
		t.Attr("requirement", id)
	}
	level := new(slog.LevelVar)
	s := start(t, func(c *manager.Config) {
		c.Level, c.Permits = level, 20
		c.VMErrors = map[string]string{"out of gas": "the contract used more than it was given"}
	})
	for _, c := range []struct {
		method, path, body string
		status             int
		want               string // of a refusal: what the error contains
	}{
		{"GET", "/permits", "", 200, `{"permits":20}`},
		{"POST", "/permits", `{"permits":33}`, 200, `{"result":"permits_set","permits":33}`},
		{"POST", "/permits", `{"permits":7}`, 200, `{"result":"permits_set","permits":33}`},
		{"POST", "/permits", `{"permits":0}`, 200, `{"result":"permits_set","permits":33}`},
		{"POST", "/permits", `{"permits":8}`, 200, `{"result":"permits_set","permits":8}`},
		{"GET", "/permits", "", 200, `{"permits":8}`},
		{"POST", "/permits", `{"permits":-1}`, 500, "integer"},
		{"POST", "/permits", `{"permits":1.5}`, 500, "integer"},
		{"POST", "/permits", `{"permits":"9"}`, 500, "integer"},
		{"POST", "/permits", `{}`, 500, "integer"},
		{"POST", "/permits", `{"permits":4294967296}`, 500, "2^32"},
		{"POST", "/permits", `{"permits":4294967295}`, 200, `{"result":"permits_set","permits":4294967295}`},
		{"POST", "/permits", `{"permits":8}`, 200, `{"result":"permits_set","permits":8}`},
		{"POST", "/permits", `{"permits":9,"permits":10}`, 400, "JSON"},
		{"POST", "/permits", `{"permits":9} {}`, 400, "JSON"},
		{"POST", "/permits", ``, 400, "JSON"},
		{"POST", "/module/start", `{"module_type":"Llm","config":{}}`, 500, "no program is configured"},
		{"POST", "/module/start", `{"module_type":"web"}`, 500, "no program is configured"},
		{"POST", "/module/restart", `{"module_type":"LLM","config":null}`, 500, "no program is configured"},
		{"POST", "/module/stop", `{"module_type":"Web"}`, 200, `{"result":"module_not_running"}`},
		{"POST", "/module/start", `{"module_type":"Sql","config":{}}`, 400, "Llm or Web"},
		{"POST", "/module/stop", `{"module_type":1}`, 400, "JSON"},
		{"POST", "/module/stop", `[]`, 400, "JSON"},
		{"POST", "/log/level", `{"level":"debug"}`, 200, `{"result":"log_level_set","level":"Debug"}`},
		{"POST", "/log/level", `{"level":"WARNING"}`, 200, `{"result":"log_level_set","level":"Warn"}`},
		{"POST", "/log/level", `{"level":"trace"}`, 200, `{"result":"log_level_set","level":"Trace"}`},
		{"POST", "/log/level", `{"level":"off"}`, 200, `{"result":"log_level_set","level":"Off"}`},
		{"POST", "/log/level", `{"level":"loud"}`, 500, "level must be"},
		{"POST", "/log/level", `{"level":7}`, 400, "JSON"},
		{"POST", "/log/level", `{"level":"Error"}`, 200, `{"result":"log_level_set","level":"Error"}`},
		{"POST", "/manifest/reload", "", 500, "no manifest is configured"},
		{"POST", "/llm/check", `{"configs":[]}`, 500, "no LLM module"},
		{"POST", "/llm/check", `{`, 400, "JSON"},
		{"GET", "/vm-error/describe?error=out+of+gas", "", 200, `{"description":"the contract used more than it was given"}`},
		{"GET", "/vm-error/describe?error=", "", 200, `{"description":null}`},
		{"GET", "/vm-error/describe?error=exit_code+1", "", 200, `{"description":null}`},
		{"GET", "/vm-error/describe", "", 400, "error"},
		{"GET", "/vm-error/describe?error=a&error=b", "", 400, "more than once"},
		{"POST", "/contract/detect-version", "code", 400, "Deployment-Timestamp"},
		{"GET", "/", "", 404, "Not Found"},
		{"GET", "/Status", "", 404, "Not Found"},
		{"GET", "/status/", "", 404, "Not Found"},
		{"GET", "//status", "", 404, "Not Found"},
		{"POST", "/status", "", 404, "Not Found"},
		{"HEAD", "/status", "", 404, ""},
		{"PUT", "/permits", "{}", 404, "Not Found"},
		{"DELETE", "/genvm/1/artifact", "", 404, "Not Found"},
		{"POST", "/ws", "", 404, "Not Found"},
		{"GET", "/ws", "", 426, "WebSocket"},
	} {
		status, body := s.call(c.method, c.path, []byte(c.body))
		ok := status == c.status
		if status == 200 {
			ok = ok && body == c.want
		} else if c.method != "HEAD" {
			var e map[string]string
			ok = ok && json.Unmarshal([]byte(body), &e) == nil && len(e) == 1 && strings.Contains(e["error"], c.want)
		}
		if !ok {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.method, c.path, c.body, status, body, c.status, c.want)
		}
	}
	if level.Level() != slog.LevelError {
		t.Errorf("the level is %v", level.Level())
	}
	if status, body := s.call("POST", "/contract/detect-version", []byte("code"), "Deployment-Timestamp", "2026-01-01T00:00:00Z"); status != 500 || !strings.Contains(body, "configured") {
		t.Errorf("detect-version without a program: %d %s", status, body)
	}
	if status, body := s.call("POST", "/contract/detect-version", []byte("code"), "Deployment-Timestamp", "yesterday"); status != 400 {
		t.Errorf("detect-version at no time: %d %s", status, body)
	}
}

// TestFixedLevel has no level to change.
func TestFixedLevel(t *testing.T) {
	t.Attr("requirement", "ADMIN-6")
	s := start(t, nil)
	if status, body := s.call("POST", "/log/level", []byte(`{"level":"debug"}`)); status != 500 || !strings.Contains(body, "fixed") {
		t.Errorf("%d %s", status, body)
	}
}

// TestStatus follows the status through the life of runs: queued, running,
// finished, failed to start, acked.
func TestStatus(t *testing.T) {
	t.Attr("requirement", "ADMIN-10")
	t.Attr("requirement", "ADMIN-11")
	s := start(t, func(c *manager.Config) { c.Permits = 8 })
	type execution struct {
		Result *struct {
			FinishedAt time.Time `json:"finished_at"`
		} `json:"result"`
		Version   string     `json:"version"`
		StartedAt *time.Time `json:"started_at"`
		Deadline  time.Time  `json:"strict_deadline"`
	}
	read := func(current int) map[string]execution {
		t.Helper()
		status, body := s.call("GET", "/status", nil)
		var a struct {
			LLM        string               `json:"llm_module"`
			Web        string               `json:"web_module"`
			Permits    map[string]int       `json:"permits"`
			Executions map[string]execution `json:"executions"`
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&a); err != nil || status != 200 || a.LLM != "stopped" || a.Web != "stopped" {
			t.Fatalf("%d %s, %v", status, body, err)
		}
		if got, want := fmt.Sprint(a.Permits), fmt.Sprint(map[string]int{"current": current, "max": 8, "per_sync_run": 4, "per_nondet_run": 8}); got != want {
			t.Errorf("permits %s, want %s", got, want)
		}
		return a.Executions
	}
	if got := read(8); len(got) != 0 {
		t.Errorf("executions %v", got)
	}
	p := s.dial()
	shell, release := fifo(t)
	p.run(command(shell))
	p.event()
	other, releaseOther := fifo(t)
	p.run(command(other))
	p.event()
	waits := command("true")
	waits.Deadline = new(msp.Duration)
	*waits.Deadline = msp.DurationOf(time.Hour)
	p.run(waits)
	got := read(0)
	for id, started := range map[string]bool{"1": true, "2": true, "3": false} {
		e, ok := got[id]
		if !ok || (e.StartedAt != nil) != started || e.Result != nil || e.Deadline.IsZero() {
			t.Errorf("run %s: %+v", id, e)
		}
	}
	if got["1"].Version != "v0.1.0" {
		t.Errorf("version %q", got["1"].Version)
	}
	release()
	p.ends(1, 3) // run 3 gets the permits of run 1
	releaseOther()
	p.ends(2)
	missing := command("true")
	missing.Selector.Version = "v9.9.9"
	p.run(missing)
	if ev := p.event(); ev.FailedToStart == nil {
		t.Errorf("the event is %+v", ev)
	}
	got = read(8)
	if got["1"].Result == nil || got["1"].Result.FinishedAt.IsZero() || got["4"].Result != nil || got["4"].StartedAt != nil {
		t.Errorf("executions %+v", got)
	}
	p.ask(&msp.Request{Ack: &msp.Target{GenvmID: 1}}, &msp.Empty{})
	if _, ok := read(8)["1"]; ok {
		t.Error("an acked run is shown")
	}
}

// TestPermitsOfABusyManager shows the size of the pool while permits are held,
// and shrinks it without a wait.
func TestPermitsOfABusyManager(t *testing.T) {
	t.Attr("requirement", "ADMIN-12")
	t.Attr("requirement", "ADMIN-15")
	s := start(t, func(c *manager.Config) { c.Permits = 16 })
	p := s.dial()
	shell, release := fifo(t)
	p.run(command(shell))
	p.event()
	if status, body := s.call("GET", "/permits", nil); status != 200 || body != `{"permits":16}` {
		t.Errorf("%d %s", status, body)
	}
	for range 3 {
		p.run(command("sleep 1000"))
		p.event()
	}
	if status, body := s.call("POST", "/permits", []byte(`{"permits":8}`)); status != 200 || body != `{"result":"permits_set","permits":8}` {
		t.Errorf("while 16 are held: %d %s", status, body)
	}
	release()
	p.ends(1)
	for id := uint64(2); id <= 4; id++ {
		p.ask(&msp.Request{Cancel: &msp.Target{GenvmID: id}}, &msp.Empty{})
		p.ends(id)
	}
}

// TestManifestReload reads a manifest again after it changed, and keeps the one
// in force when the change is a mistake.
func TestManifestReload(t *testing.T) {
	t.Attr("requirement", "ADMIN-21")
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("executor_versions: {}\n")
	s := start(t, func(c *manager.Config) { c.ManifestPath = path })
	p := s.dial()
	major := func() *msp.Event {
		r := command("true")
		r.Selector = msp.Selector{Major: 0}
		p.run(r)
		return p.event()
	}
	if ev := major(); ev.FailedToStart == nil {
		t.Errorf("without a version: %+v", ev)
	}
	write("executor_versions: {v0.1.0: {available_after: 1970-01-01T00:00:00Z}}\n")
	if status, body := s.call("POST", "/manifest/reload", nil); status != 200 || body != `{"result":"manifest_reloaded"}` {
		t.Fatalf("reload: %d %s", status, body)
	}
	if ev := major(); ev.Started == nil {
		t.Errorf("with a version: %+v", ev)
	}
	p.finish()
	write("executor_versions: [\n")
	if status, body := s.call("POST", "/manifest/reload", nil); status != 500 || !strings.HasPrefix(body, `{"error":"`) {
		t.Fatalf("reload of a mistake: %d %s", status, body)
	}
	if ev := major(); ev.Started == nil {
		t.Errorf("after the mistake: %+v", ev)
	}
	p.finish()
}
