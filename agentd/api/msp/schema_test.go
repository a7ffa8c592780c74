package msp

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"microvms/agentd/calldata"
)

var equal = cmp.Options{cmpopts.EquateComparable(Timestamp{}, calldata.U256{}), cmpopts.EquateEmpty(), ignoreMarkers}

// entries is the smallest request as a map that a test can change.
func entries(t *testing.T) map[string]any {
	t.Helper()
	r := smallest()
	b, err := calldata.AppendSparse(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	v, err := calldata.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	return v.(map[string]any)
}

func decodeRun(m map[string]any) (*RunRequest, error) {
	b, err := calldata.Marshal(map[string]any{"run": m})
	if err != nil {
		return nil, err
	}
	r, err := ParseRequest(MethodRun, b)
	if err != nil {
		return nil, err
	}
	return r.Run, nil
}

// TestRunSchema takes each field of manager facts, section 3.1, out of a whole
// request: those without a default are missed, the others take it.
func TestRunSchema(t *testing.T) {
	t.Attr("requirement", "CALLDATA-9")
	t.Attr("requirement", "CALLDATA-10")
	t.Attr("requirement", "CALLDATA-23")
	required := []string{"selector", "message", "is_sync", "bucket_totals", "host_data", "timestamp", "host", "calldata", "code", "leader_nondet_results",
		"initial_time_units_allocation"}
	optional := []string{"debug_mode", "max_execution_minutes", "deadline", "extra_args", "permissions", "no_modules", "unsafe_overrides", "gas_data",
		"message_fee_allocation", "record_actions", "host_genvm_id", "host_hello_data", "hook_cross_contract_calls"}
	whole, err := calldata.Marshal(smallest())
	if err != nil {
		t.Fatal(err)
	}
	v, _ := calldata.Decode(whole)
	have := slices.Sorted(maps.Keys(v.(map[string]any)))
	if diff := cmp.Diff(slices.Sorted(slices.Values(append(append([]string{}, required...), optional...))), have); diff != "" {
		t.Errorf("the keys of a request: %s", diff)
	}
	smaller := slices.Sorted(maps.Keys(entries(t)))
	if diff := cmp.Diff(slices.Sorted(slices.Values(required)), smaller); diff != "" {
		t.Errorf("the keys of the smallest request: %s", diff)
	}
	for _, key := range required {
		m := entries(t)
		delete(m, key)
		_, err := decodeRun(m)
		var e *calldata.Error
		if !errors.As(err, &e) || e.Fault != calldata.MissingField || e.Path != "run."+key {
			t.Errorf("without %s: %v", key, err)
		}
	}
	got, err := decodeRun(entries(t))
	if err != nil {
		t.Fatal(err)
	}
	if got.DebugMode != "disabled" || got.MaxExecutionMinutes != 20 || got.Permissions != "wscn" || got.Deadline != nil || got.Token != nil ||
		got.Message.Datetime.String() != "2024-11-26T06:42:42.424242Z" {
		t.Errorf("the defaults are %+v", got)
	}
}

// TestRunRefusals changes one entry of the smallest request.
func TestRunRefusals(t *testing.T) {
	t.Attr("requirement", "CALLDATA-17")
	t.Attr("requirement", "CALLDATA-21")
	node := func(change string, value any) map[string]any {
		m := map[string]any{"recipient": nil, "call_key": nil, "budget": 1, "on": "accepted", "children": []any{},
			"fee_params": map[string]any{"External": map[string]any{"gas_limit": 1, "max_gas_price": 1}}}
		if change != "" {
			m[change] = value
		}
		return m
	}
	for _, tc := range []struct {
		key   string
		value any
		want  string // part of the error; empty: accepted
	}{
		{"selector", map[string]any{"kind": "major", "major": 3}, ""},
		{"selector", map[string]any{"kind": "version", "version": "v0.3.0"}, ""},
		{"selector", map[string]any{"kind": "minor", "minor": 3}, "run.selector.kind"},
		{"selector", map[string]any{"kind": "major"}, "run.selector.major"},
		{"selector", map[string]any{"kind": "major", "version": "v1"}, "run.selector"},
		{"selector", map[string]any{"kind": "major", "major": 3, "version": "v1"}, "run.selector.version"},
		{"selector", map[string]any{"kind": "version", "version": 3}, "run.selector.version"},
		{"selector", map[string]any{"major": 3}, "run.selector.kind"},
		{"selector", "major", "run.selector"},
		{"selector", map[string]any{"kind": "major", "major": int64(1) << 32}, "run.selector.major"},
		{"debug_mode", "safe-unbounded", ""},
		{"debug_mode", "verbose", "run.debug_mode"},
		{"deadline", nil, ""},
		{"deadline", "1.5s", ""},
		{"deadline", 5, "run.deadline"},
		{"deadline", "5", "run.deadline"},
		{"timestamp", "2026-01-01T01:00:00+01:00", ""},
		{"timestamp", "yesterday", "run.timestamp"},
		{"max_execution_minutes", -1, "run.max_execution_minutes"},
		{"bucket_totals", []any{1, -1, calldata.IntOf(power(300))}, ""},
		{"bucket_totals", []any{1, "2"}, "run.bucket_totals[1]"},
		{"code", []byte{1}, ""},
		{"code", "text", "run.code"},
		{"gas_data", map[string]any{"call": "700"}, ""},
		{"gas_data", map[string]any{"call": 700}, "run.gas_data.call"},
		{"leader_nondet_results", []any{}, ""},
		{"leader_nondet_results", []any{nil}, "run.leader_nondet_results[0]"},
		{"unsafe_overrides", map[string]any{}, ""},
		{"unsafe_overrides", map[string]any{"reroute_to": "v9", "initial_recursion": 3}, ""},
		{"unsafe_overrides", map[string]any{"initial_recursion": -3}, "run.unsafe_overrides.initial_recursion"},
		{"host_hello_data", []any{[]byte{1}, []byte{}, []byte{3}}, ""},
		{"host_hello_data", []any{[]byte{1}, []byte{2}}, "host_hello_data[1] must be empty"},
		{"host_genvm_id", "", ""},
		{"host_genvm_id", 5, "run.host_genvm_id"},
		{"message_fee_allocation", []any{node("", nil)}, ""},
		{"message_fee_allocation", []any{node("children", []any{node("on", "finalized")})}, ""},
		{"message_fee_allocation", []any{node("children", []any{node("on", "never")})}, "run.message_fee_allocation[0].children[0].on"},
		{"message_fee_allocation", []any{node("budget", -1)}, "run.message_fee_allocation[0].budget"},
		{"message_fee_allocation", []any{node("call_key", []byte{1})}, "run.message_fee_allocation[0].call_key"},
		{"message_fee_allocation", []any{node("fee_params", map[string]any{"Internal": map[string]any{}})}, "run.message_fee_allocation[0].fee_params.Internal"},
		{"consume_fuel", 1, "run.consume_fuel"},
	} {
		m := entries(t)
		m[tc.key] = tc.value
		r, err := decodeRun(m)
		if (err == nil) != (tc.want == "") || !strings.Contains(fmt.Sprint(err), tc.want) {
			t.Errorf("%s = %v: %v, want %q", tc.key, tc.value, err, tc.want)
		}
		if err != nil {
			continue
		}
		b, err := (&Request{Run: r}).Message(1)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseRequest(MethodRun, b[HeaderBytes:])
		if diff := cmp.Diff(r, again.Run, equal); err != nil || diff != "" {
			t.Errorf("%s = %v: %v %s", tc.key, tc.value, err, diff)
		}
	}
}

// TestTagAgreesWithHeader sends each payload under each method.
func TestTagAgreesWithHeader(t *testing.T) {
	t.Attr("requirement", "CALLDATA-12")
	requests := []*Request{{Run: smallest()}, {Attach: &Attach{1, 2}}, {Cancel: &Target{1}}, {Ack: &Target{1}}, {GetArtifact: &GetArtifact{GenvmID: 1, Field: "x"}}}
	for _, r := range requests {
		b, err := r.Message(1)
		if err != nil {
			t.Fatal(err)
		}
		for m := MethodError; m <= MethodGetArtifact+1; m++ {
			got, err := ParseRequest(m, b[HeaderBytes:])
			if (err == nil) != (m == r.Method()) {
				t.Errorf("the payload of %v under %v: %v", r.Method(), m, err)
			}
			if err == nil && got.Method() != m {
				t.Errorf("the payload of %v decodes as %v", m, got.Method())
			}
		}
	}
	if _, err := (&Request{}).Message(1); err == nil {
		t.Error("a request without a payload was encoded")
	}
	if _, _, err := ParseHeader(make([]byte, HeaderBytes-1)); !errors.Is(err, ErrShort) {
		t.Errorf("nine octets: %v", err)
	}
}

func TestNames(t *testing.T) {
	t.Attr("requirement", "CALLDATA-11")
	for m, want := range map[Method]string{0: "error", 1: "hello", 2: "event", 3: "run", 4: "attach", 5: "cancel", 6: "ack", 7: "get_artifact", 8: "method 8"} {
		if m.String() != want || m.Known() != (m < 8) || m.Request() != (m >= 3 && m < 8) {
			t.Errorf("method %d is %q", uint16(m), m)
		}
	}
	for c, want := range map[ErrorCode]string{0: "internal", 1: "malformed_frame", 2: "unknown_method", 3: "unknown_id", 4: "boot_id_mismatch", 5: "bad_request_id", 6: "not_finished", 7: "error 7"} {
		if c.String() != want {
			t.Errorf("code %d is %q", uint8(c), c)
		}
	}
	if DebugUnsafe.AtLeast(DebugUnsafeTracing) || !DebugUnsafe.AtLeast(DebugSafe) || !DebugSafe.AtLeast(DebugSafe) || DebugMode("x").AtLeast(DebugDisabled) {
		t.Error("the debug modes are ordered otherwise")
	}
	for mode, want := range map[DebugMode]bool{DebugDisabled: false, DebugSafeUnbounded: false, DebugUnsafe: true} {
		r := smallest()
		r.DebugMode, r.UnsafeOverrides.InitialRecursion = mode, ptr(uint32(2))
		if got := r.ExecutionData().RemainingRecursion != nil; got != want {
			t.Errorf("mode %s hands the recursion on: %t", mode, got)
		}
	}
	r := smallest()
	for _, tc := range []struct {
		none, sync  bool
		permissions string
		want        bool
	}{{false, false, "wscn", true}, {true, false, "n", false}, {false, true, "n", false}, {false, false, "wsc", false}} {
		r.NoModules, r.IsSync, r.Permissions = tc.none, tc.sync, tc.permissions
		if r.NeedsModules() != tc.want {
			t.Errorf("%+v: needs modules %t", tc, r.NeedsModules())
		}
	}
}

// FuzzRequest reads payloads of requests: what is accepted keeps its meaning when
// it is written again, whole or without its defaults.
func FuzzRequest(f *testing.F) {
	for _, r := range []*Request{{Run: smallest()}, {Run: ordinary()}, {Attach: &Attach{1, 2}}, {GetArtifact: &GetArtifact{GenvmID: 1, Field: "x"}}} {
		b, err := calldata.Marshal(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		var r Request
		if calldata.Unmarshal(input, &r) != nil {
			return
		}
		for _, write := range []func([]byte, any) ([]byte, error){calldata.Append, calldata.AppendSparse} {
			b, err := write(nil, &r)
			if err != nil {
				t.Fatal(err)
			}
			var again Request
			if err := calldata.Unmarshal(b, &again); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&r, &again, equal); diff != "" {
				t.Fatal(diff)
			}
			twice, err := write(nil, &again)
			if err != nil || !bytes.Equal(twice, b) {
				t.Fatalf("%x becomes %x, then %x", input, b, twice)
			}
		}
	})
}

// FuzzMessage reads what goes the other way, and executors' results: types whose
// texts have one form only and that have no defaults come back octet by octet.
func FuzzMessage(f *testing.F) {
	for _, fr := range frames {
		f.Add(unhex(fr.hex)[HeaderBytes:])
	}
	for _, r := range reported {
		f.Add(unhex(r.hex))
	}
	b, err := calldata.Marshal(smallest().ExecutionData())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, input []byte) {
		for _, exact := range []any{new(ReportedResult), new(ArtifactReply), new(RunReply), new(HelloPayload), new(Error), new(NestedReply)} {
			if calldata.Unmarshal(input, exact) != nil {
				continue
			}
			if again, err := calldata.Marshal(exact); err != nil || !bytes.Equal(again, input) {
				t.Fatalf("%T: %x becomes %x, %v", exact, input, again, err)
			}
		}
		for _, kept := range []any{new(AttachReply), new(Event), new(ExecutionData), new(NestedRequest)} {
			if calldata.Unmarshal(input, kept) != nil {
				continue
			}
			b, err := calldata.Marshal(kept)
			again := newOf(kept)
			if err == nil {
				err = calldata.Unmarshal(b, again)
			}
			if diff := cmp.Diff(kept, again, equal); err != nil || diff != "" {
				t.Fatalf("%T: %v %s", kept, err, diff)
			}
		}
	})
}
