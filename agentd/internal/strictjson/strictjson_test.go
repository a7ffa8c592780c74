package strictjson

import (
	stdjson "encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"microvms/agentd/api"
)

// TestMarshalTakesAnyText encodes texts that are no UTF-8, at every place where
// an answer has text: none fails, and the replacement is that of a poll's output.
func TestMarshalTakesAnyText(t *testing.T) {
	t.Attr("requirement", "XPORT-33")
	type word string
	for _, c := range []struct {
		v    any
		want string
	}{
		{&api.Error{Code: api.UnknownExec, Detail: "a\xff<\xe2\x82"}, "{\"error\":\"unknown_exec\",\"detail\":\"a\uFFFD<\uFFFD\"}"},
		{[]string{"\xff", "b"}, "[\"\uFFFD\",\"b\"]"},
		{map[string]string{"\xff": "\xff"}, "{\"\uFFFD\":\"\uFFFD\"}"},
		{word("\xff"), "\"\uFFFD\""},
	} {
		if got, err := Marshal(c.v); err != nil || string(got) != c.want {
			t.Errorf("Marshal(%q) = %s (%v), want %s", c.v, got, err, c.want)
		}
	}
}

// TestUnmarshal checks strictness on a shape with every kind of field.
func TestUnmarshal(t *testing.T) {
	t.Attr("requirement", "XPORT-13")
	t.Attr("requirement", "XPORT-14")
	type shape struct {
		S string            `json:"s"`
		B bool              `json:"b"`
		N *uint32           `json:"n"`
		L []string          `json:"l"`
		M map[string]string `json:"m"`
		P *string           `json:"p"`
		U *api.NameOrID     `json:"u"`
		H api.Shell         `json:"h"`
	}
	for text, ok := range map[string]bool{
		`{}`:                            true,
		` {"s":"x"} ` + "\n\t":          true,
		`{"n":null,"p":null,"u":null}`:  true,
		`{"zz":null,"Zz":[{"q":null}]}`: true,
		`{"l":[],"m":{}}`:               true,
		`{"s":"\ud83d\ude00"}`:          true,
		`{"u":4294967295,"h":"sh"}`:     true,
		`{"u":"","h":false}`:            true,
		`{"s":null}`:                    false,
		`{"b":null}`:                    false,
		`{"l":null}`:                    false,
		`{"l":[null]}`:                  false,
		`{"m":null}`:                    false,
		`{"m":{"a":null}}`:              false,
		`{"h":null}`:                    false,
		`{"h":1}`:                       false,
		`{"h":"\ud800"}`:                false,
		`{"u":-1}`:                      false,
		`{"u":1.0}`:                     false,
		`{"u":1e1}`:                     false,
		`{"u":4294967296}`:              false,
		`{"u":true}`:                    false,
		`{"n":"1"}`:                     false,
		`{"n":-0}`:                      false,
		`{"b":1}`:                       false,
		`{"s":"a","s":"a"}`:             false,
		`{"s":"a","\u0073":"a"}`:        false,
		`{"m":{"a":"1","a":"1"}}`:       false,
		`{"x":{"a":1,"a":1}}`:           false,
		"{\"s\":\"\xff\"}":              false,
		"{\"s\":\"\x01\"}":              false,
		`{"s":"\ud800"}`:                false,
		`{"s":"\udc00\ud800"}`:          false,
		`{"s":"a"}x`:                    false,
		`{"s":"a"}{}`:                   false,
		`{"s":"a"`:                      false,
		`{s:"a"}`:                       false,
		`{"s":'a'}`:                     false,
		`{"s":"a",}`:                    false,
		`null`:                          false,
		`[]`:                            false,
		``:                              false,
		"\ufeff{}":                      false,
	} {
		var v shape
		err := Unmarshal([]byte(text), &v)
		if (err == nil) != ok {
			t.Errorf("Unmarshal(%q): %v, want accepted %v", text, err, ok)
		}
		if err != nil && Describe(err) == "" {
			t.Errorf("Unmarshal(%q): no description of %v", text, err)
		}
	}
	var v shape
	if err := Unmarshal([]byte(`{"S":"upper","B":true}`), &v); err != nil || v.S != "" || v.B {
		t.Errorf("a key in another case was taken: %+v (%v)", v, err)
	}
}

// TestDescribeQuotesNoValue checks that the text of a refusal names the place
// and not what stands there.
func TestDescribeQuotesNoValue(t *testing.T) {
	t.Attr("requirement", "SECRET-4")
	const secret = "987654321"
	for _, text := range []string{
		`{"env":{"A":` + secret + `}}`, `{"exec_id":` + secret + `}`, `{"user":-` + secret + `}`, `{"shell":` + secret + `}`,
		`{"env":{"A":"` + secret + `"} x`, secret, `{"exec_id":"` + secret + `"}{}`, `{"timeout_sec":"` + secret + `"}`,
	} {
		var req api.StartRequest
		err := Unmarshal([]byte(text), &req)
		if err == nil || strings.Contains(Describe(err), secret) {
			t.Errorf("%s: %v is described as %q", text, err, Describe(err))
		}
	}
	var req api.StartRequest
	if got := Describe(Unmarshal([]byte(`{"env":{"A":5}}`), &req)); !strings.Contains(got, `"/env/A"`) {
		t.Errorf("description %q, want the place named", got)
	}
}

// TestMarshal checks the answers' encoding: no HTML escapes, empty lists,
// nulls, absent outcomes.
func TestMarshal(t *testing.T) {
	t.Attr("requirement", "XPORT-25")
	for want, v := range map[string]any{
		`{"error":"unknown_exec","detail":"<a>&\u0001` + "\u2028" + `"}`: &api.Error{Code: api.UnknownExec, Detail: "<a>&\x01\u2028"},
		`{"procs":[]}`:                                   &api.ProcsResponse{},
		`{"exec_id":"x","phase":"acked"}`:                &api.PollResponse{ExecID: "x", Phase: api.PhaseAcked},
		`{"offset":1,"stream":"stderr","output":"AAE="}`: &api.OutputEvent{Offset: 1, Stream: api.StreamStderr, Output: []byte{0, 1}},
		`{"exec_id":"x","command":[]}`:                   &api.StartRequest{ExecID: "x", Command: []string{}},
		`{"exec_id":"x","command":["a"],"shell":"bash","user":0,"group":"g"}`: &api.StartRequest{ExecID: "x", Command: []string{"a"},
			Shell: api.Shell{IsNamed: true, Name: "bash"}, User: api.ID(0), Group: api.Name("g")},
		`{"exec_id":"x","phase":"exited","exit_code":null,"signal":9,"timed_out":true,"stdout":"","stderr":"","truncated":false,"writers_may_be_alive":false}`: &api.PollResponse{
			ExecID: "x", Phase: api.PhaseExited, Outcome: &api.Outcome{Signal: new(int32(9)), TimedOut: true}},
	} {
		got, err := Marshal(v)
		if err != nil || string(got) != want {
			t.Errorf("Marshal = %s (%v), want %s", got, err, want)
		}
	}
}

// FuzzStartRequest checks that no body crashes the decoder and that whatever
// it accepts a lenient second decoder reads likewise.
func FuzzStartRequest(f *testing.F) {
	for _, s := range []string{`{"exec_id":"a","command":["b"]}`, `{"exec_id":"a","command":[],"shell":true,"env":{"A":"b"},"user":5,"group":"g","timeout_sec":1.5,"cwd":"/"}`, `{"shell":"x"}`, `{"user":01}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { agree[api.StartRequest](t, body) })
}

// FuzzStdinRequest is FuzzStartRequest for the stdin body.
func FuzzStdinRequest(f *testing.F) {
	for _, s := range []string{`{}`, `{"data_b64":"YQ==","signal":"eof"}`, `{"signal":null}`, `{"data_b64":5}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { agree[api.StdinRequest](t, body) })
}

// agree decodes strictly and leniently and compares. encoding/json matches
// names in any case, so bodies with such names are left out.
func agree[T any](t *testing.T, body []byte) {
	var strict, lenient T
	if err := Unmarshal(body, &strict); err != nil {
		if Describe(err) == "" {
			t.Fatalf("no description of %v", err)
		}
		return
	}
	otherCase := false
	_ = Members(body, func(name string, _ jsontext.Value) bool {
		for i := range reflect.TypeFor[T]().NumField() {
			key, _, _ := strings.Cut(reflect.TypeFor[T]().Field(i).Tag.Get("json"), ",")
			otherCase = otherCase || (name != key && strings.EqualFold(name, key))
		}
		return true
	})
	if otherCase {
		return
	}
	if err := stdjson.Unmarshal(body, &lenient); err != nil {
		t.Fatalf("accepted %q, which a second decoder refuses: %v", body, err)
	}
	if !reflect.DeepEqual(strict, lenient) {
		t.Fatalf("%q: %+v, a second decoder reads %+v", body, strict, lenient)
	}
	// What is accepted encodes and decodes to itself.
	text, err := Marshal(strict)
	var again T
	if err == nil {
		err = Unmarshal(text, &again)
	}
	if _, isStart := any(strict).(api.StartRequest); err != nil || (!isStart && !reflect.DeepEqual(strict, again)) {
		t.Fatalf("%q encodes to %s and back to %+v (%v)", body, text, again, err)
	}
}
