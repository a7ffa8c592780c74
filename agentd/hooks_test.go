package agentd_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"microvms/agentd"
	"microvms/agentd/api"
)

// TestBootstrapIsOneShot takes the daemon through first token, replay, other
// token and malformed payloads, and checks after each which token is in force.
func TestBootstrapIsOneShot(t *testing.T) {
	for _, id := range []string{"AGENTD-2", "AGENTD-3", "AGENTD-4", "HOOK-9", "HOOK-12", "AUTHZ-9"} {
		t.Attr("requirement", id)
	}
	d := start(t, nil)
	run := func(payload any) reply { return d.post(hookAt+"run", envelope(payload)) }
	if r := run(map[string]any{"agent_token": ""}); r.status != 400 || d.health().Bootstrapped {
		t.Fatalf("a malformed first payload: %v, bootstrapped %v", r, d.health().Bootstrapped)
	}
	if r := run(map[string]any{"agent_token": token, "env": map[string]string{"A": "first"}}); r.status != 200 || r.body != "" {
		t.Fatalf("the first token: %v", r)
	}
	for _, c := range []struct {
		name    string
		payload any
		status  int
	}{
		{"replay with another environment", map[string]any{"agent_token": token, "env": map[string]string{"A": "second"}}, 200},
		{"another token", map[string]any{"agent_token": "other", "env": map[string]string{"A": "third"}}, 409},
		{"the token in another case", map[string]any{"agent_token": strings.ToUpper(token)}, 409},
		{"the token and a space", map[string]any{"agent_token": token + " "}, 409},
		{"malformed", map[string]any{"agent_token": "other", "env": 1}, 400},
	} {
		r := run(c.payload)
		if r.status != c.status || (c.status != 400 && r.body != "") {
			t.Errorf("%s: %v, want %d", c.name, r, c.status)
		}
		if r := d.get(api.PathProcs); r.status != 200 {
			t.Errorf("after %s the first token is not in force: %v", c.name, r)
		}
		if r := d.with("GET", api.PathProcs, "", map[string][]string{"Authorization": {"Bearer other"}}); r.status != 401 {
			t.Errorf("after %s another token is accepted: %v", c.name, r)
		}
	}
	d.startExec("env", nil, "/usr/bin/env")
	if got := d.outcome("env").Stdout; got != "A=first\n" {
		t.Errorf("launch environment %q, want the first", got)
	}
}

// TestBootstrapBodies checks every refusal in the order of the facts, with
// words that name the key and never quote a value, and what is accepted.
func TestBootstrapBodies(t *testing.T) {
	t.Attr("requirement", "HOOK-24")
	for _, id := range []string{"HOOK-5", "HOOK-6", "HOOK-7", "HOOK-8", "HOOK-10", "HOOK-26", "HOOK-27", "SECRET-4"} {
		t.Attr("requirement", id)
	}
	key := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
	zero := base64.StdEncoding.EncodeToString(make([]byte, 32))
	const secret = "SeCrEt"
	for _, c := range []struct {
		name, body string
		status     int
		names      string // what the refusal must name; empty: an empty body
	}{
		{"not json", "nope", 400, ""},
		{"empty", "", 400, ""},
		{"an array", "[]", 400, ""},
		{"trailing bytes", envelopeOf(`{"agent_token":"t"}`) + "x", 400, ""},
		{"a second value", envelopeOf(`{"agent_token":"t"}`) + "{}", 400, ""},
		{"duplicate key", `{"runHookPayload":"{\"agent_token\":\"t\"}","runHookPayload":"{\"agent_token\":\"t\"}"}`, 400, ""},
		{"key in another case", `{"RunHookPayload":"{\"agent_token\":\"t\"}"}`, 400, ""},
		{"payload absent", `{}`, 400, ""},
		{"payload null", `{"runHookPayload":null}`, 400, ""},
		{"payload a number", `{"runHookPayload":5}`, 400, ""},
		{"payload an object", `{"runHookPayload":{"agent_token":"t"}}`, 400, ""},
		{"invalid utf-8", "{\"runHookPayload\":\"\xff\"}", 400, ""},
		{"lone surrogate", `{"runHookPayload":"\ud800"}`, 400, ""},
		{"nested: not json", envelopeOf(secret), 400, "nested"},
		{"nested: an array", envelopeOf(`["` + secret + `"]`), 400, "JSON object"},
		{"nested: trailing bytes", envelopeOf(`{"agent_token":"t"} x`), 400, "JSON object"},
		{"nested: duplicate key", envelopeOf(`{"agent_token":"t","agent_token":"` + secret + `"}`), 400, `repeats the key "agent_token"`},
		{"nested: duplicate variable", envelopeOf(`{"agent_token":"t","env":{"AB":"` + secret + `","AB":""}}`), 400, `repeats the key "AB"`},
		{"env: empty name", envelopeOf(`{"agent_token":"t","env":{"":"` + secret + `"}}`), 400, `env: the entry ""`},
		{"env: equals sign in a name", envelopeOf(`{"agent_token":"t","env":{"A=B":"` + secret + `"}}`), 400, `env: the entry "A=B"`},
		{"env: NUL in a name", envelopeOf(`{"agent_token":"t","env":{"A\u0000":"` + secret + `"}}`), 400, `env: the entry "A\x00"`},
		{"env: NUL in a value", envelopeOf(`{"agent_token":"t","env":{"A":"` + secret + `\u0000"},"identity_seed":5}`), 400, `env: the entry "A"`},
		{"nested: lone surrogate", envelopeOf(`{"agent_token":"\udc00"}`), 400, "JSON object"},
		{"token missing", envelopeOf(`{"env":5}`), 400, "agent_token"},
		{"token in another case", envelopeOf(`{"Agent_Token":"t"}`), 400, "agent_token"},
		{"token null", envelopeOf(`{"agent_token":null}`), 400, "agent_token"},
		{"token a number", envelopeOf(`{"agent_token":5,"env":5}`), 400, "agent_token"},
		{"token empty, before env", envelopeOf(`{"agent_token":"","env":5}`), 400, "empty"},
		{"env not an object, before identity", envelopeOf(`{"agent_token":"t","env":"` + secret + `","identity_seed":5}`), 400, "env"},
		{"env an array", envelopeOf(`{"agent_token":"t","env":[]}`), 400, "env"},
		{"env value not a string", envelopeOf(`{"agent_token":"t","env":{"A":"` + secret + `","B":5,"C":6},"identity_seed":5}`), 400, `"B"`},
		{"env value null", envelopeOf(`{"agent_token":"t","env":{"N":null}}`), 400, `"N"`},
		{"seed not a string", envelopeOf(`{"agent_token":"t","identity_seed":5}`), 400, "identity_seed"},
		{"host key not a string, before the missing one", envelopeOf(`{"agent_token":"t","identity_host_public_key":5}`), 400, "identity_host_public_key is not a string"},
		{"host key missing", envelopeOf(`{"agent_token":"t","identity_seed":"!"}`), 400, "identity_host_public_key"},
		{"host key null", envelopeOf(`{"agent_token":"t","identity_seed":"!","identity_host_public_key":null}`), 400, "identity_host_public_key"},
		{"seed missing", envelopeOf(`{"agent_token":"t","identity_host_public_key":"!"}`), 400, "identity_seed"},
		{"seed not base64", envelopeOf(`{"agent_token":"t","identity_seed":"` + secret + `!","identity_host_public_key":"YQ=="}`), 400, "identity_seed"},
		{"host key not base64, before the length", envelopeOf(`{"agent_token":"t","identity_seed":"YQ==","identity_host_public_key":"!"}`), 400, "identity_host_public_key"},
		{"base64 without padding", envelopeOf(`{"agent_token":"t","identity_seed":"` + strings.TrimRight(key, "=") + `","identity_host_public_key":"` + key + `"}`), 400, "identity_seed"},
		{"base64 with a newline", envelopeOf(`{"agent_token":"t","identity_seed":"` + key[:4] + `\n` + key[4:] + `","identity_host_public_key":"` + key + `"}`), 400, "identity_seed"},
		{"length", envelopeOf(`{"agent_token":"t","identity_seed":"` + key + `","identity_host_public_key":"YWE="}`), 400, "identity_host_public_key decodes to 2 bytes"},
		{"seed zero", envelopeOf(`{"agent_token":"t","identity_seed":"` + zero + `","identity_host_public_key":"` + key + `"}`), 400, "identity_seed"},
		{"host key zero", envelopeOf(`{"agent_token":"t","identity_seed":"` + key + `","identity_host_public_key":"` + zero + `"}`), 400, "identity_host_public_key"},
		{"plain", envelopeOf(`{"agent_token":"t"}`), 200, ""},
		{"env null", envelopeOf(`{"agent_token":"t","env":null}`), 200, ""},
		{"identity null", envelopeOf(`{"agent_token":"t","identity_seed":null,"identity_host_public_key":null}`), 200, ""},
		{"identity", envelopeOf(`{"agent_token":"t","identity_seed":"` + key + `","identity_host_public_key":"` + key + `"}`), 200, ""},
		{"unknown keys", `{"x":[1],"runHookPayload":"{\"y\":{\"z\":null},\"agent_token\":\"t\",\"env\":{\"E\":\"\"}}","AGENT":1}`, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := start(t, nil)
			r := d.post(hookAt+"run", c.body)
			if r.status != c.status || !strings.Contains(r.body, c.names) || (c.names == "" && r.body != "") {
				t.Errorf("%v, want %d naming %q", r, c.status, c.names)
			}
			if strings.Contains(r.body, secret) || strings.Contains(d.log.String(), secret) {
				t.Errorf("the refusal or the log quotes a value: %v", r)
			}
			if h := d.health(); h.Bootstrapped != (c.status == 200) || len(h.Hooks) != 1 || h.Hooks[0].Hook != "run" {
				t.Errorf("health %+v, want bootstrapped %v and the hook in the log", h, c.status == 200)
			}
		})
	}
}

// TestRunHookContentType checks that the run hook takes JSON only.
func TestRunHookContentType(t *testing.T) {
	t.Attr("requirement", "HOOK-5")
	t.Attr("requirement", "HOOK-25")
	d := start(t, nil)
	body := envelope(map[string]string{"agent_token": token})
	for value, want := range map[string]int{"": 400, "text/plain": 400, "application/jsonx": 400, "application/vnd.x+json": 200, "application/json; charset=utf-8": 200, "Application/JSON": 200} {
		header := map[string][]string{}
		if value != "" {
			header["Content-Type"] = []string{value}
		}
		if r := d.with("POST", hookAt+"run", body, header); r.status != want || r.body != "" {
			t.Errorf("content type %q: %v, want %d", value, r, want)
		}
	}
}

// TestHooksAnswer checks the hooks that only acknowledge, before and after
// bootstrap, with bodies that nobody reads; terminate ends nothing.
func TestHooksAnswer(t *testing.T) {
	t.Attr("requirement", "HOOK-3")
	t.Attr("requirement", "HOOK-4")
	d := start(t, nil)
	for round := range 2 {
		for _, hook := range []string{"ready", "validate", "suspend", "resume", "terminate"} {
			for _, body := range []string{"", "{}", "not json \xff"} {
				if r := d.with("POST", hookAt+hook, body, nil); r.status != 200 || r.body != "" {
					t.Errorf("round %d, %s with %q: %v, want an empty 200", round, hook, body, r)
				}
			}
		}
		if round == 0 {
			if !strings.Contains(d.log.String(), "cold start") {
				t.Error("a resume without a token is not logged")
			}
			d.bootstrap(nil)
		}
	}
	if r := d.get(api.PathProcs); r.status != 200 {
		t.Errorf("after terminate: %v", r)
	}
}

// TestHookLogKeepsTheEarliest fills the log over its cap.
func TestHookLogKeepsTheEarliest(t *testing.T) {
	t.Attr("requirement", "HOOK-2")
	t.Attr("requirement", "HEALTH-5")
	clock := newClock(1_700_000_000)
	d := start(t, func(c *agentd.Config) { c.Clock = clock })
	for i := range 70 {
		hook := api.Hooks()[i%6]
		d.post(hookAt+hook, "malformed")
		clock.Advance(1e9)
	}
	h := d.health()
	if len(h.Hooks) != 64 || h.HooksDropped != 6 {
		t.Fatalf("%d hooks kept and %d dropped, want 64 and 6", len(h.Hooks), h.HooksDropped)
	}
	for i, entry := range h.Hooks {
		if want := (api.HookObservation{Hook: api.Hooks()[i%6], FiredAt: 1_700_000_000 + uint64(i)}); entry != want {
			t.Errorf("entry %d is %+v, want %+v", i, entry, want)
		}
	}
	// A dropped run hook still does its work.
	d.bootstrap(nil)
	if h := d.health(); !h.Bootstrapped || h.HooksDropped != 7 {
		t.Errorf("after a dropped bootstrap: %+v", h)
	}
}

// TestRacingBootstraps lets many hooks with different tokens race: one wins,
// and its environment is the one in force.
func TestRacingBootstraps(t *testing.T) {
	t.Attr("requirement", "AGENTD-2")
	t.Attr("requirement", "HOOK-11")
	d := start(t, nil)
	const n = 16
	answers := make(chan int, n)
	for i := range n {
		go func() {
			p := d.dial()
			body := envelope(map[string]any{"agent_token": fmt.Sprint("token", i), "env": map[string]string{"WINNER": fmt.Sprint(i)}})
			p.send("POST " + hookAt + "run HTTP/1.1\r\nHost: d\r\nContent-Type: application/json\r\n" + sized(body))
			if r := p.read("POST"); r.status == 200 {
				answers <- i
			} else if r.status != 409 {
				t.Errorf("racer %d: %v", i, r)
				answers <- -1
			} else {
				answers <- -1
			}
		}()
	}
	winner := -1
	for range n {
		if i := <-answers; i >= 0 {
			if winner >= 0 {
				t.Errorf("two winners: %d and %d", winner, i)
			}
			winner = i
		}
	}
	auth := map[string][]string{"Authorization": {fmt.Sprint("Bearer token", winner)}, "Content-Type": {"application/json"}}
	if r := d.with("POST", api.PathExecStart, `{"exec_id":"e","command":["/usr/bin/env"]}`, auth); r.status != 200 {
		t.Fatalf("the winner's token: %v", r)
	}
	r := d.with("GET", "/v1/exec/e/stream", "", auth)
	if want := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "WINNER=%d\n", winner)); !strings.Contains(r.body, want) {
		t.Errorf("stream %q, want the winner's environment", r.body)
	}
}

// TestHealthShape checks key order, nulls and empty lists byte for byte.
func TestHealthShape(t *testing.T) {
	t.Attr("requirement", "HEALTH-1")
	t.Attr("requirement", "HEALTH-2")
	t.Attr("requirement", "HEALTH-8")
	t.Attr("requirement", "HEALTH-9")
	t.Attr("requirement", "HEALTH-10")
	d := start(t, func(c *agentd.Config) {
		c.Environ = []string{"A=1", "PATH=/x", "AGENTD_SECRET=2", "BAD=\xff", "=odd", "novalue", "A=again"}
		c.Limits.DiskReserveBytes = 1 << 62
	})
	r := d.with("GET", api.PathHealth, "", nil)
	var h api.Health
	if err := json.Unmarshal([]byte(r.body), &h); err != nil || h.Disk == nil || h.Disk.AvailableBytes == 0 {
		t.Fatalf("%v (%v)", r, err)
	}
	want := fmt.Sprintf(`{"version":"1.2.3-test","bootstrapped":false,"disk":{"available_bytes":%d,"reserve_bytes":%d,"under_pressure":true},`+
		`"identity_degraded":false,"identity_repaired":false,"busy":false,"execs":0,"hooks":[],"hooks_dropped":0,"identity_steps":[],"image_env_keys":2}`, h.Disk.AvailableBytes, 1<<62)
	if r.status != 200 || r.body != want {
		t.Errorf("health\n got %s\nwant %s", r.body, want)
	}
	for _, name := range []string{api.HeaderDefaultUser, api.HeaderPowerOffExit} {
		if r.header.Get(name) != "" {
			t.Errorf("header %s is sent", name)
		}
	}
	for _, edit := range []func(*agentd.Config){
		func(c *agentd.Config) { empty := ""; c.DefaultUser = &empty },
		func(c *agentd.Config) { c.PreserveImageUser = true },
	} {
		if r := start(t, edit).with("GET", api.PathHealth, "", nil); r.header.Get(api.HeaderDefaultUser) != "1" {
			t.Errorf("with a default user: headers %v", r.header)
		}
	}
	if h := start(t, func(c *agentd.Config) { c.Limits.DiskReserveBytes = -1 }).health(); h.Disk.ReserveBytes != 0 || h.Disk.UnderPressure {
		t.Errorf("without a reserve: %+v", h.Disk)
	}
}
