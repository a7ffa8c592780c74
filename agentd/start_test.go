package agentd_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"microvms/agentd/api"
)

// TestStartRefusals sends every form of start request that is refused before
// the spawn. Nothing is registered by any of them.
func TestStartRefusals(t *testing.T) {
	for _, id := range []string{"EXEC-6", "EXEC-7", "EXEC-8", "AGENTD-8", "AGENTD-15", "ACCOUNT-9", "ACCOUNT-11", "EXEC-11", "EXEC-34", "EXEC-36", "EXEC-42", "XPORT-13", "XPORT-14"} {
		t.Attr("requirement", id)
	}
	d := booted(t, nil)
	for _, c := range []struct{ name, body, code string }{
		{"empty", ``, "malformed_request"},
		{"null", `null`, "malformed_request"},
		{"array", `[]`, "malformed_request"},
		{"no id", `{"command":["true"]}`, "malformed_request"},
		{"empty id", `{"exec_id":"","command":["true"]}`, "malformed_request"},
		{"id of 4097 bytes", `{"exec_id":"` + strings.Repeat("i", 4097) + `","command":["true"]}`, "malformed_request"},
		{"id of 300000 bytes", `{"exec_id":"` + strings.Repeat("é", 150000) + `","command":["true"]}`, "malformed_request"},
		{"null id", `{"exec_id":null,"command":["true"]}`, "malformed_request"},
		{"number id", `{"exec_id":1,"command":["true"]}`, "malformed_request"},
		{"no command", `{"exec_id":"x"}`, "malformed_request"},
		{"null command", `{"exec_id":"x","command":null}`, "malformed_request"},
		{"string command", `{"exec_id":"x","command":"true"}`, "malformed_request"},
		{"null argument", `{"exec_id":"x","command":["true",null]}`, "malformed_request"},
		{"number argument", `{"exec_id":"x","command":[1]}`, "malformed_request"},
		{"empty command", `{"exec_id":"x","command":[]}`, "malformed_request"},
		{"key in another case", `{"Exec_id":"x","command":["true"]}`, "malformed_request"},
		{"duplicate key", `{"exec_id":"x","exec_id":"x","command":["true"]}`, "malformed_request"},
		{"duplicate variable", `{"exec_id":"x","command":["true"],"env":{"A":"1","A":"1"}}`, "malformed_request"},
		{"duplicate unknown key", `{"exec_id":"x","command":["true"],"z":1,"z":1}`, "malformed_request"},
		{"trailing bytes", `{"exec_id":"x","command":["true"]}{}`, "malformed_request"},
		{"trailing comma", `{"exec_id":"x","command":["true"],}`, "malformed_request"},
		{"invalid utf-8", "{\"exec_id\":\"\xff\",\"command\":[\"true\"]}", "malformed_request"},
		{"lone surrogate", `{"exec_id":"\ud800","command":["true"]}`, "malformed_request"},
		{"null shell", `{"exec_id":"x","command":["true"],"shell":null}`, "malformed_request"},
		{"number shell", `{"exec_id":"x","command":["true"],"shell":1}`, "malformed_request"},
		{"empty shell", `{"exec_id":"x","command":["true"],"shell":""}`, "malformed_request"},
		{"null env", `{"exec_id":"x","command":["true"],"env":null}`, "malformed_request"},
		{"null variable", `{"exec_id":"x","command":["true"],"env":{"A":null}}`, "malformed_request"},
		{"number variable", `{"exec_id":"x","command":["true"],"env":{"A":1}}`, "malformed_request"},
		{"null stdin", `{"exec_id":"x","command":["true"],"stdin":null}`, "malformed_request"},
		{"string stdin", `{"exec_id":"x","command":["true"],"stdin":"true"}`, "malformed_request"},
		{"null reap", `{"exec_id":"x","command":["true"],"reap_group_on_exit":null}`, "malformed_request"},
		{"null inherit", `{"exec_id":"x","command":["true"],"inherit_image_env":null}`, "malformed_request"},
		{"null poweroff", `{"exec_id":"x","command":["true"],"poweroff_on_exit":null}`, "malformed_request"},
		{"negative user", `{"exec_id":"x","command":["true"],"user":-1}`, "malformed_request"},
		{"user of 33 bits", `{"exec_id":"x","command":["true"],"user":4294967296}`, "malformed_request"},
		{"fractional user", `{"exec_id":"x","command":["true"],"user":1.0}`, "malformed_request"},
		{"boolean group", `{"exec_id":"x","command":["true"],"group":true}`, "malformed_request"},
		{"number cwd", `{"exec_id":"x","command":["true"],"cwd":1}`, "malformed_request"},
		{"timeout zero", `{"exec_id":"x","command":["true"],"timeout_sec":0}`, "malformed_request"},
		{"timeout minus zero", `{"exec_id":"x","command":["true"],"timeout_sec":-0.0}`, "malformed_request"},
		{"timeout negative", `{"exec_id":"x","command":["true"],"timeout_sec":-1}`, "malformed_request"},
		{"timeout string", `{"exec_id":"x","command":["true"],"timeout_sec":"5"}`, "malformed_request"},
		{"timeout beyond a duration", `{"exec_id":"x","command":["true"],"timeout_sec":1e300}`, "malformed_request"},
		{"timeout beyond a double", `{"exec_id":"x","command":["true"],"timeout_sec":1e999}`, "malformed_request"},
		{"nul in an argument", `{"exec_id":"x","command":["true","a\u0000b"]}`, "malformed_request"},
		{"nul in the program", `{"exec_id":"x","command":["\u0000"]}`, "malformed_request"},
		{"nul in the script", `{"exec_id":"x","command":["echo \u0000"],"shell":true}`, "malformed_request"},
		{"nul in cwd", `{"exec_id":"x","command":["true"],"cwd":"/\u0000"}`, "malformed_request"},
		{"nul in a value", `{"exec_id":"x","command":["true"],"env":{"A":"\u0000"}}`, "malformed_request"},
		{"nul in a name", `{"exec_id":"x","command":["true"],"env":{"A\u0000":""}}`, "malformed_request"},
		{"equals sign in a name", `{"exec_id":"x","command":["true"],"env":{"A=B":"c"}}`, "malformed_request"},
		{"empty name", `{"exec_id":"x","command":["true"],"env":{"":"c"}}`, "malformed_request"},
		{"unknown user", `{"exec_id":"x","command":[],"user":"nobody","group":"wheel","shell":"nosh","poweroff_on_exit":true}`, "unknown_user"},
		{"user of 33 bits as digits", `{"exec_id":"x","command":["true"],"user":"4294967296"}`, "unknown_user"},
		{"user that is no id", `{"exec_id":"x","command":["true"],"user":4294967295}`, "unknown_user"},
		{"group that is no id", `{"exec_id":"x","command":["true"],"group":4294967295}`, "unknown_group"},
		{"user with a sign", `{"exec_id":"x","command":["true"],"user":"+5"}`, "unknown_user"},
		{"user with a space", `{"exec_id":"x","command":["true"],"user":" 5"}`, "unknown_user"},
		{"user empty", `{"exec_id":"x","command":["true"],"user":""}`, "unknown_user"},
		{"unknown group", `{"exec_id":"x","command":[],"group":"wheel","shell":"nosh","poweroff_on_exit":true}`, "unknown_group"},
		{"group of 33 bits as digits", `{"exec_id":"x","command":["true"],"group":"4294967296"}`, "unknown_group"},
		{"group empty", `{"exec_id":"x","command":["true"],"group":""}`, "unknown_group"},
		{"unknown shell", `{"exec_id":"x","command":[],"shell":"no-such-shell","poweroff_on_exit":true}`, "unknown_shell"},
		{"shell by a relative path", `{"exec_id":"x","command":["true"],"shell":"bin/sh"}`, "unknown_shell"},
		{"shell by a path that is a folder", `{"exec_id":"x","command":["true"],"shell":"/bin"}`, "unknown_shell"},
		{"shell with a nul", `{"exec_id":"x","command":["true"],"shell":"/bin/sh\u0000"}`, "unknown_shell"},
		{"power-off", `{"exec_id":"x","command":["true"],"poweroff_on_exit":true}`, "poweroff_unavailable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := d.post(api.PathExecStart, c.body)
			var e struct {
				Error, Detail *string
			}
			err := json.Unmarshal([]byte(r.body), &e)
			if r.status != 400 || err != nil || e.Error == nil || *e.Error != c.code || e.Detail == nil {
				t.Errorf("%v, want 400 %s with a detail", r, c.code)
			}
			if !strings.HasPrefix(r.body, `{"error":"`+c.code+`","detail":"`) {
				t.Errorf("body %s, want the keys in order", r.body)
			}
		})
	}
	if r := d.get("/v1/exec/x"); r.code() != api.UnknownExec {
		t.Errorf("after the refusals: %v", r)
	}
	if h := d.health(); h.Execs != 0 || h.Busy {
		t.Errorf("health %+v, want no exec", h)
	}
}

// TestStartContentType checks that a start needs a JSON content type.
func TestStartContentType(t *testing.T) {
	t.Attr("requirement", "XPORT-13")
	t.Attr("requirement", "XPORT-22")
	d := booted(t, nil)
	for value, want := range map[string]int{"": 400, "text/json": 400, "application/json": 200, "application/a+json;x=y": 200} {
		header := http.Header{"Authorization": {"Bearer " + token}}
		if value != "" {
			header.Set("Content-Type", value)
		}
		r := d.with("POST", api.PathExecStart, `{"exec_id":"ct","command":["true"]}`, header)
		if r.status != want || (want == 400 && r.code() != api.MalformedRequest) {
			t.Errorf("content type %q: %v, want %d", value, r, want)
		}
	}
}

// TestKnownIDIsAnsweredFirst repeats an id with bodies that would be refused
// for a name or a capability: the retry is answered 200, in every phase; only
// a body that is not well-formed is still a 400.
func TestKnownIDIsAnsweredFirst(t *testing.T) {
	t.Attr("requirement", "EXEC-2")
	t.Attr("requirement", "EXEC-4")
	d := booted(t, nil)
	dir := t.TempDir()
	d.startExec("k", map[string]any{"shell": true}, "echo once >> "+dir+"/log")
	check := func(phase string) {
		for body, want := range map[string]int{
			`{"exec_id":"k","command":["echo twice >> ` + dir + `/log"],"shell":true}`: 200,
			`{"exec_id":"k","command":["x"],"user":"nobody-here"}`:                     200,
			`{"exec_id":"k","command":["x"],"group":"nobody-here","shell":"nosh"}`:     200,
			`{"exec_id":"k","command":["x"],"poweroff_on_exit":true}`:                  200,
			`{"exec_id":"k","command":["/does/not/exist"]}`:                            200,
			`{"exec_id":"k","command":[]}`:                                             400,
			`{"exec_id":"k","command":["x"],"shell":""}`:                               400,
			`{"exec_id":"k","command":["x"],"timeout_sec":-1}`:                         400,
		} {
			r := d.post(api.PathExecStart, body)
			if r.status != want || (want == 200 && r.body != `{"exec_id":"k","phase":"running"}`) {
				t.Errorf("%s, %s: %v, want %d", phase, body, r, want)
			}
		}
	}
	check("running or exited")
	d.wait("k")
	check("exited")
	if r := d.post("/v1/exec/k/ack", ""); r.status != 200 {
		t.Fatalf("ack: %v", r)
	}
	check("acked")
	if log, err := os.ReadFile(filepath.Join(dir, "log")); err != nil || string(log) != "once\n" {
		t.Errorf("the command ran as %q (%v), want once", log, err)
	}
}

// TestTimeoutRefusals says of a timeout whether it is too large or none at all.
func TestTimeoutRefusals(t *testing.T) {
	t.Attr("requirement", "EXEC-8")
	d := booted(t, nil)
	for timeout, want := range map[string]string{"0": "not a positive finite number", "-1e300": "not a positive finite number",
		"1e20": "timeout_sec is too large", "18446744073709551616": "timeout_sec is too large", "1e300": "timeout_sec is too large"} {
		if r := d.post(api.PathExecStart, `{"exec_id":"x","command":["true"],"timeout_sec":`+timeout+`}`); r.status != 400 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %v, want %q", timeout, r, want)
		}
	}
}

// TestTimeouts checks every accepted form of timeout_sec.
func TestTimeouts(t *testing.T) {
	t.Attr("requirement", "EXEC-8")
	d := booted(t, nil)
	for i, timeout := range []string{"null", "5", "0.5", "1e18", "9223372036854775807", "1.5e1"} {
		id := fmt.Sprint("t", i)
		body := `{"exec_id":"` + id + `","command":["true"],"timeout_sec":` + timeout + `}`
		if r := d.post(api.PathExecStart, body); r.status != 200 {
			t.Errorf("timeout %s: %v", timeout, r)
			continue
		}
		if p := d.outcome(id); p.TimedOut || p.ExitCode == nil || *p.ExitCode != 0 {
			t.Errorf("timeout %s: %+v", timeout, p.Outcome)
		}
	}
	d.startExec("tiny", map[string]any{"timeout_sec": 1e-300}, "sleep", "30")
	if p := d.outcome("tiny"); !p.TimedOut || p.Signal == nil || *p.Signal != 15 {
		t.Errorf("the smallest timeout: %+v", p.Outcome)
	}
}

// TestSpawnFailures checks that what cannot be executed answers 500 with its
// stage, and leaves nothing behind.
func TestSpawnFailures(t *testing.T) {
	t.Attr("requirement", "EXEC-5")
	d := booted(t, nil)
	dir := t.TempDir()
	writeFile(t, dir+"/plain", "no program\n")
	writeFile(t, dir+"/script", "#!/no/such/interpreter\n")
	writeFile(t, dir+"/text", "echo not a program\n")
	for _, name := range []string{"script", "text"} {
		if err := os.Chmod(dir+"/"+name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, req := range map[string]map[string]any{
		"missing program":     {"command": []string{"/no/such/program"}},
		"missing bare name":   {"command": []string{"no-such-program"}},
		"empty program":       {"command": []string{""}},
		"folder":              {"command": []string{dir}},
		"not executable":      {"command": []string{dir + "/plain"}},
		"missing interpreter": {"command": []string{dir + "/script"}},
		"no shell fallback":   {"command": []string{dir + "/text"}},
		"missing cwd":         {"command": []string{"true"}, "cwd": dir + "/none"},
		"cwd is a file":       {"command": []string{"true"}, "cwd": dir + "/plain"},
		"argument too long":   {"command": []string{"true", strings.Repeat("x", 131072)}},
	} {
		t.Run(name, func(t *testing.T) {
			req["exec_id"] = "s"
			body, err := json.Marshal(req)
			if err != nil {
				t.Fatal(err)
			}
			if r := d.post(api.PathExecStart, string(body)); r.status != 500 || r.code() != api.SpawnFailed {
				t.Errorf("%v, want 500 spawn_failed", r)
			}
			if r := d.get("/v1/exec/s"); r.code() != api.UnknownExec {
				t.Errorf("poll: %v, want unknown_exec", r)
			}
		})
	}
}

// TestShellScripts checks that a script is one unwrapped argument, elements
// joined by newlines.
func TestShellScripts(t *testing.T) {
	t.Attr("requirement", "EXEC-9")
	d := booted(t, nil)
	for i, c := range []struct {
		script []string
		exit   int32
		stdout string
	}{
		{[]string{}, 0, ""},
		{[]string{""}, 0, ""},
		{[]string{"echo a", "echo b"}, 0, "a\nb\n"},
		{[]string{"echo a # a comment ends it"}, 0, "a\n"},
		{[]string{"echo $0"}, 0, "/bin/sh\n"},
		{[]string{"exit 7"}, 7, ""},
		{[]string{"cat <<X", "here", "X"}, 0, "here\n"},
	} {
		id := fmt.Sprint("sh", i)
		d.startExec(id, map[string]any{"shell": true, "command": c.script})
		if p := d.outcome(id); p.ExitCode == nil || *p.ExitCode != c.exit || p.Stdout != c.stdout {
			t.Errorf("script %q: %+v, want exit %d and %q", c.script, p.Outcome, c.exit, c.stdout)
		}
	}
	d.startExec("brace", map[string]any{"shell": true}, "}")
	if p := d.outcome("brace"); p.ExitCode == nil || *p.ExitCode == 0 {
		t.Errorf("a stray brace: %+v, want the shell's own failure", p.Outcome)
	}
}

// TestOddIDs checks that any non-empty id works as a key and nothing else.
func TestOddIDs(t *testing.T) {
	t.Attr("requirement", "EXEC-1")
	t.Attr("requirement", "XPORT-23")
	d := booted(t, nil)
	for _, id := range []string{"../up", "a\nb", "UPPER", "upper", "ü", "a b", "%2F", "start", "x\x00y", strings.Repeat("i", 4096), strings.Repeat("é", 2048)} {
		d.startExec(id, nil, "true")
		for _, segment := range []string{pathEscape(id), url.PathEscape(id)} {
			if id == "start" && segment == id {
				continue // the one path that is another route's
			}
			if r := d.get("/v1/exec/" + segment); r.status != 200 {
				t.Errorf("id %.30q as %.30s: %v", id, segment, r)
			}
		}
	}
	if h := d.health(); h.Execs != 11 {
		t.Errorf("%d execs, want 11 different ones", h.Execs)
	}
	for line := range strings.Lines(d.log.String()) {
		if len(line) > 2048 {
			t.Errorf("log line of %d bytes", len(line))
		}
	}
}

// TestIDsThatAreNoText names executions in paths by bytes that are no UTF-8, on
// every route: unknown, with the bytes replaced in the detail.
func TestIDsThatAreNoText(t *testing.T) {
	t.Attr("requirement", "XPORT-33")
	t.Attr("requirement", "EXEC-30")
	d := booted(t, nil)
	for _, r := range []struct{ method, rest, body string }{
		{"GET", "", ""}, {"GET", "/stream", ""}, {"POST", "/stdin", `{}`}, {"POST", "/ack", ""}, {"POST", "/kill", ""},
	} {
		got := d.call(r.method, "/v1/exec/a%ff%e2%82"+r.rest, r.body)
		if got.status != 404 || got.body != `{"error":"unknown_exec","detail":"a`+"\uFFFD\uFFFD"+`"}` {
			t.Errorf("%s %s: %v, want 404 with a lossy detail", r.method, r.rest, got)
		}
	}
	if strings.Contains(d.log.String(), "panicked") {
		t.Errorf("a handler panicked: %s", d.log)
	}
}

// pathEscape percent-encodes every byte that is not a letter, so that the
// daemon has to decode all it can.
func pathEscape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c|0x20 >= 'a' && c|0x20 <= 'z' && s != "start" {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
