package hooks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"microvms/agentd/api"
)

// FuzzBearer checks that no header value crashes the split, that exactly the
// presented bytes come out, and that only the installed token opens.
func FuzzBearer(f *testing.F) {
	for _, s := range []string{"", "Bearer", "Bearer ", "bearer x", "BEARER  x", "Bearer\tx", "Basic x", "\xff \xff", "bEaReR a b", "Bearer tok"} {
		f.Add(s)
	}
	b := New(1)
	b.Decide(Payload{Token: "tok"}, nil)
	f.Fuzz(func(t *testing.T, value string) {
		token, ok := Bearer(value)
		if ok && (!strings.EqualFold(value[:7], "bearer ") || value[7:] != token) {
			t.Fatalf("Bearer(%q) = %q", value, token)
		}
		if !ok && len(value) >= 7 && strings.EqualFold(value[:7], "bearer ") && value[:7] == strings.ToValidUTF8(value[:7], "") && isASCII(value[:7]) {
			t.Fatalf("Bearer(%q) refused a bearer", value)
		}
		want := Unauthorized
		if ok && token == "tok" {
			want = Authorized
		}
		if got := b.Authorize([]string{value}, nil); got != want {
			t.Fatalf("Authorize(%q) = %v, want %v", value, got, want)
		}
		if got := New(1).Authorize([]string{value}, nil); got != Closed {
			t.Fatalf("Authorize(%q) without a token = %v", value, got)
		}
	})
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0
}

// FuzzRunEnvelope checks that no body crashes the two parsers, that a refusal
// quotes no value, and that what is accepted is what a lenient second parser
// reads.
func FuzzRunEnvelope(f *testing.F) {
	for _, p := range []string{`{"agent_token":"t"}`, `{"agent_token":"t","env":{"A":"b"}}`, `{"agent_token":5}`, `[]`, `{"agent_token":"t","identity_seed":"x"}`, `{"agent_token":"t","env":{"A":null}}`} {
		outer, err := json.Marshal(map[string]string{"runHookPayload": p})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(outer)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text, ok := ParseEnvelope(body)
		if !ok {
			return
		}
		var envelope map[string]any
		if err := json.Unmarshal(body, &envelope); err != nil || envelope["runHookPayload"] != text {
			t.Fatalf("ParseEnvelope(%q) = %q, a second parser reads %v (%v)", body, text, envelope, err)
		}
		p, err := ParsePayload(text)
		if err != nil {
			return
		}
		var payload map[string]any
		if err := json.Unmarshal([]byte(text), &payload); err != nil || payload["agent_token"] != p.Token || p.Token == "" {
			t.Fatalf("ParsePayload(%q) = token %q, a second parser reads %v (%v)", text, p.Token, payload, err)
		}
		env, _ := payload["env"].(map[string]any)
		if len(env) != len(p.Env) {
			t.Fatalf("ParsePayload(%q): %d variables, a second parser reads %d", text, len(p.Env), len(env))
		}
		for k, v := range p.Env {
			if env[k] != v {
				t.Fatalf("ParsePayload(%q): variable %q differs", text, k)
			}
		}
	})
}

// TestBootstrapNeverReplaces runs any sequence of payloads against a second
// description of the rule: the first installs, with its environment, and
// nothing after it changes anything.
func TestBootstrapNeverReplaces(t *testing.T) {
	t.Attr("requirement", "AGENTD-3")
	t.Attr("requirement", "HOOK-11")
	t.Attr("requirement", "HOOK-12")
	rapid.Check(t, func(t *rapid.T) {
		b := New(3)
		tokens := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "ab"}), 1, 8).Draw(t, "tokens")
		for i, token := range tokens {
			want := Conflicted
			switch {
			case i == 0:
				want = Installed
			case token == tokens[0]:
				want = Replayed
			}
			if got := b.Decide(Payload{Token: token, Env: map[string]string{"N": fmt.Sprint(i)}, Identity: &Identity{Seed: [32]byte{byte(i)}}}, nil); got != want {
				t.Fatalf("payload %d: %v, want %v", i, got, want)
			}
			if b.Env()["N"] != "0" || b.Identity().Seed[0] != 0 {
				t.Fatalf("payload %d is in force", i)
			}
			for _, probe := range []string{"a", "b", "ab", ""} {
				want := Unauthorized
				if probe == tokens[0] {
					want = Authorized
				}
				if got := b.Authorize([]string{"Bearer " + probe}, nil); got != want {
					t.Fatalf("after payload %d, %q is %v, want %v", i, probe, got, want)
				}
			}
		}
	})
}

// TestLogIsCapped checks the log at its cap and that what is handed out is a
// copy.
func TestLogIsCapped(t *testing.T) {
	t.Attr("requirement", "HOOK-2")
	b := New(2)
	for i := range 5 {
		if _, kept := b.Observe(fmt.Sprint(i), time.Unix(int64(i), 0), nil); kept != (i < 2) {
			t.Errorf("entry %d kept: %v", i, kept)
		}
	}
	log, dropped := b.Log()
	if len(log) != 2 || log[0] != (api.HookObservation{Hook: "0"}) || log[1].FiredAt != 1 || dropped != 3 {
		t.Errorf("log %v, dropped %d", log, dropped)
	}
	log[0].Hook = "changed"
	if again, _ := b.Log(); again[0].Hook != "0" {
		t.Error("the log can be changed from outside")
	}
}

// TestPanicUnderTheLock checks that a panic while the lock is held leaves it
// usable.
func TestPanicUnderTheLock(t *testing.T) {
	t.Attr("requirement", "XPORT-12")
	b := New(2)
	for _, f := range []func(){
		func() { b.Observe("run", time.Now(), func(bool) { panic("planted") }) },
		func() { b.Decide(Payload{Token: "t"}, func(Decision) { panic("planted") }) },
		func() { b.Authorize(nil, func(Verdict) { panic("planted") }) },
	} {
		panicked := within(t, func() (p any) {
			defer func() { p = recover() }()
			f()
			return nil
		})
		if panicked != "planted" {
			t.Errorf("panicked with %v, want what was planted", panicked)
		}
	}
	if usable := within(t, func() any {
		return b.Bootstrapped() && b.Authorize([]string{"Bearer t"}, nil) == Authorized
	}); usable != true {
		t.Error("the bootstrap is not usable after panics")
	}
}

// within calls f and fails the test when it does not return: a lock that is
// never released is a wait without end.
func within(t *testing.T, f func() any) any {
	t.Helper()
	result := make(chan any, 1)
	go func() { result <- f() }()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
		t.Fatal("the bootstrap is locked for ever")
		return nil
	}
}

// TestPayloadIsRedacted prints a payload in every way that a log could.
func TestPayloadIsRedacted(t *testing.T) {
	t.Attr("requirement", "SECRET-1")
	p := Payload{Token: "sEcReT", Env: map[string]string{"sEcReT": "sEcReT"}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if got := fmt.Sprintf(format, p); strings.Contains(got, "sEcReT") {
			t.Errorf("%s prints %s", format, got)
		}
	}
	if got := p.LogValue().String(); strings.Contains(got, "sEcReT") {
		t.Errorf("a log value is %s", got)
	}
}
