package manager

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
)

// everything names each field of the request once.
const everything = `
selector: {kind: version, version: v0.3.0}
message:
  contract_address: 0x5b38da6a701c568545dcfcb03fcb875f56beddc4
  sender_address: "0x0000000000000000000000000000000000000001"
  chain_id: 61999
  value: 115792089237316195423570985008687907853269984665640564039457584007913129639936
  is_init: true
  datetime: 2026-01-01T01:00:00+01:00
is_sync: true
debug_mode: safe
max_execution_minutes: 3
deadline: 1.5m
bucket_totals: [1, -2, 340282366920938463463374607431768211456]
host_data: '{"a": 1}'
timestamp: 2026-01-01T00:00:00Z
host: unix:///run/host
extra_args: [a, 5, "x y"]
calldata: {"method": "transfer", args: [0x5b38da6a701c568545dcfcb03fcb875f56beddc4, -7, "text:raw", plain, null, true]}
code: base64:Y29kZQ==
permissions: w
no_modules: true
unsafe_overrides: {reroute_to: v9, initial_recursion: 3}
leader_nondet_results: [0x00ff, "text:b"]
gas_data: {call: "700", store: 20000}
message_fee_allocation:
  - recipient: null
    call_key: 0x0101010101010101010101010101010101010101010101010101010101010101
    budget: 5
    on: finalized
    fee_params: {External: {gas_limit: 1, max_gas_price: 2}}
    children: []
initial_time_units_allocation: 7
record_actions: [vm_spawn]
host_genvm_id: t
host_hello_data: ["text:hi"]
hook_cross_contract_calls: true
`

func TestReadRequest(t *testing.T) {
	t.Attr("requirement", "MCLIENT-38")
	r := msp.NewRunRequest()
	if err := ReadRequest([]byte(everything), r); err != nil {
		t.Fatal(err)
	}
	b, err := calldata.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	v, _ := calldata.Decode(b)
	got := v.(map[string]any)
	inner, err := calldata.Decode(r.Calldata)
	if err != nil {
		t.Fatal(err)
	}
	address := calldata.Address{}
	if err := address.UnmarshalText([]byte("0x5b38da6a701c568545dcfcb03fcb875f56beddc4")); err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]any{
		"calldata":     {inner, map[string]any{"method": "transfer", "args": []any{address, calldata.NewInt(-7), []byte("raw"), "plain", nil, true}}},
		"selector":     {got["selector"], map[string]any{"kind": "version", "version": "v0.3.0"}},
		"contract":     {r.Message.ContractAddress, address},
		"value":        {r.Message.Value.String(), "115792089237316195423570985008687907853269984665640564039457584007913129639936"},
		"datetime":     {r.Message.Datetime.String(), "2026-01-01T00:00:00Z"},
		"deadline":     {got["deadline"], "90000ms"},
		"extra_args":   {r.ExtraArgs, []string{"a", "5", "x y"}},
		"code":         {string(r.Code), "code"},
		"gas_data":     {r.GasData, map[string]string{"call": "700", "store": "20000"}},
		"results":      {r.LeaderNondetResults, [][]byte{{0, 0xff}, []byte("b")}},
		"bucket":       {fmt.Sprint(r.BucketTotals), "[1 -2 340282366920938463463374607431768211456]"},
		"hello":        {r.HostHello, [][]byte{[]byte("hi")}},
		"overrides":    {got["unsafe_overrides"], map[string]any{"reroute_to": "v9", "initial_recursion": calldata.NewInt(3)}},
		"node":         {r.MessageFeeAllocation[0].CallKey[31], byte(1)},
		"time units":   {r.InitialTimeUnits, uint32(7)},
		"hook":         {r.HookCalls, true},
		"token":        {*r.Token, "t"},
		"host":         {r.Host, "unix:///run/host"},
		"record":       {r.RecordActions, []string{"vm_spawn"}},
		"debug":        {r.DebugMode, msp.DebugSafe},
		"minutes":      {r.MaxExecutionMinutes, uint64(3)},
		"permissions":  {r.Permissions, "w"},
		"no_modules":   {r.NoModules, true},
		"host_data":    {r.HostData, `{"a": 1}`},
		"sync":         {r.IsSync, true},
		"sender":       {r.Message.SenderAddress[19], byte(1)},
		"untouched":    {r.Message.OriginAddress, calldata.Address{}},
		"fee external": {r.MessageFeeAllocation[0].Params.External.GasLimit.String(), "1"},
	} {
		if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	// Each key of the wire was named.
	for key := range got {
		if !strings.Contains(everything, "\n"+key+":") {
			t.Errorf("the key %s is not looked at", key)
		}
	}
}

// TestReadRequestOver says what a text leaves alone.
func TestReadRequestOver(t *testing.T) {
	t.Attr("requirement", "MCLIENT-38")
	for _, text := range []string{"", "# nothing\n", "null", "{}"} {
		r := request("keep")
		want := *r
		if err := ReadRequest([]byte(text), r); err != nil || r.Token == nil || *r.Token != "keep" || r.Host != want.Host {
			t.Errorf("%q: %v", text, err)
		}
	}
	r := request("keep")
	r.Code = []byte{1}
	if err := ReadRequest([]byte(`{"host_genvm_id": null, "code": null, "deadline": null, "leader_nondet_results": null, "host": "h:1"}`), r); err != nil {
		t.Fatal(err)
	}
	if r.Token != nil || r.Code != nil || r.Deadline != nil || r.LeaderNondetResults != nil || r.Host != "h:1" || r.HostData != "{}" {
		t.Errorf("after nulls the request is %+v", r)
	}
	for text, want := range map[string]string{"{}": "06", "[]": "05", "7": "39", "true": "10", "[[1]]": "0d0d09", "0x0a": "0a", "0xff": "ff", "!!binary aGk=": "6869"} {
		r := request()
		if err := ReadRequest([]byte("calldata: "+text), r); err != nil || hex.EncodeToString(r.Calldata) != want {
			t.Errorf("calldata %s: %x, %v, want %s", text, r.Calldata, err, want)
		}
	}
}

func TestReadRequestRefusals(t *testing.T) {
	t.Attr("requirement", "MCLIENT-39")
	for text, want := range map[string]string{
		"[":                       "not YAML or JSON",
		"5":                       "line 1: request: want a mapping",
		"{}\n---\n{}":             "more than one document",
		"colour: 5":               `no field "colour"; there are selector, message`,
		"message: {colour: 5}":    `line 1: request.message: no field "colour"`,
		"host: a\nhost: b":        `line 2: request: the key "host" stands twice`,
		"\n\nhost: [a]":           "line 3: request.host: want a scalar",
		"host: null":              "request.host: want a text",
		"is_sync: 1":              "request.is_sync: want true or false",
		"deadline: 5":             "request.deadline: cannot read a duration",
		"timestamp: noon":         "request.timestamp: cannot read a timestamp",
		"timestamp: null":         "request.timestamp: want a scalar",
		"bucket_totals: [1.5]":    "request.bucket_totals[0]: cannot read an integer",
		"bucket_totals: 5":        "request.bucket_totals: want a list",
		"extra_args: {a: b}":      "request.extra_args: want a list",
		"gas_data: [a]":           "request.gas_data: want a mapping",
		"gas_data: {a: [b]}":      "request.gas_data.a: want a scalar",
		"code: plain":             "request.code: bytes begin with 0x, base64: or text:",
		"code: 0x123":             "not hexadecimal after 0x",
		"code: 'base64:!'":        "not base64 after base64:",
		"code: !!binary '!'":      "request.code: not base64",
		"calldata: 1.5":           "calldata has no fractions",
		"calldata: {a: 1, a: 2}":  `the key "a" stands twice`,
		"calldata: [1_0]":         "want a decimal integer",
		"selector: {kind: major}": "want {kind: major, major: N} or",
		"selector: {kind: major, major: 1, version: x}":                             "want {kind: major, major: N} or",
		"selector: {kind: major, major: 4294967296}":                                "want an integer from 0 to 4294967295",
		"max_execution_minutes: -1":                                                 "want an integer from 0 to 18446744073709551615",
		"message_fee_allocation: [{call_key: 0x00}]":                                "call_key: want 32 bytes, have 1",
		"message: {sender_address: 0x00}":                                           "want 40 hexadecimal digits",
		"host: &a x\nextra_args: [*a]":                                              "aliases are not read",
		"calldata: {a: &a [1], b: *a}":                                              "aliases are not read",
		"? [a]\n: 1":                                                                "want plain keys",
		"calldata: " + strings.Repeat("[", 200) + strings.Repeat("]", 200):          "nested too deep",
		"unsafe_overrides: {initial_recursion: 99999999999}":                        "initial_recursion: want an integer",
		"message: {value: " + strings.Repeat("9", 10_001) + "}":                     "at most 10000 decimal digits",
		"message_fee_allocation: [{fee_params: {Neither: {}}}]":                     `fee_params: no field "Neither"; there are Internal, External`,
		"message_fee_allocation: [{fee_params: {External: {gas_limit: secret-1}}}]": "gas_limit: cannot read an integer",
	} {
		err := ReadRequest([]byte(text), msp.NewRunRequest())
		if client.KindOf(err) != client.KindInvalidArg || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret-1") {
			t.Errorf("%q: the error repeats the value: %v", text, err)
		}
	}
}

// FuzzReadRequest reads any text: no panic, and what is read can be judged.
func FuzzReadRequest(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte(`{"selector": {"kind": "major", "major": 0}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r := msp.NewRunRequest()
		if ReadRequest(text, r) != nil {
			return
		}
		b, err := calldata.Marshal(r)
		if err != nil {
			return // such as an unknown debug mode, which sending refuses
		}
		if err := calldata.Unmarshal(b, new(msp.RunRequest)); err != nil {
			t.Fatalf("%q gives a request that no manager reads: %v", text, err)
		}
	})
}
