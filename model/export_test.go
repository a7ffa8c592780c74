package model

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// exported returns the lasso of a small graph with a name that every format must
// escape.
func exported(t *testing.T) (*Path, *Graph) {
	t.Helper()
	arrows := []arrow{{0, actA, 1}, {1, actB, 2}, {2, actC, 1}}
	m := graphModel(arrows, []Fairness{Weak("", actA, actB, actC)}, Eventually("reached", is(3)))
	m.Actions[1] = ActionInfo{Name: "B", Params: []string{"who"}, Values: map[string][]string{"who": {`the "first"`}}}
	m.Fields = func(s line) []Field {
		return []Field{{Name: "n", Value: itoa(uint64(s.N))}, {Name: "odd", Value: map[bool]string{true: "true", false: "false"}[s.N%2 == 1]}, {Name: "say", Value: "a\\\"b\""}}
	}
	r, err := Check(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := Explore(context.Background(), m, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Properties[0].Path, render(&m, g)
}

func TestPathText(t *testing.T) {
	t.Attr("requirement", "CHECK-23")
	p, _ := exported(t)
	var b bytes.Buffer
	if err := p.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	want := ` 0  initial state
      n = 0
      odd = false
      say = a\"b"
>1  A
      n = 1
      odd = true
 2  B(who=the "first")
      n = 2
      odd = false
 3  C
      n = 1
      odd = true
    and again from step 1, for ever
`
	if b.String() != want {
		t.Errorf("text:\n%s\nwant:\n%s", b.String(), want)
	}
	b.Reset()
	one := &Path{Steps: p.Steps[:1], Loop: 1}
	_ = one.WriteText(&b) // a bytes.Buffer never fails
	if !strings.HasSuffix(b.String(), "the last state stutters for ever\n") {
		t.Errorf("a path of one state that stutters: %s", b.String())
	}
}

func TestPathITF(t *testing.T) {
	t.Attr("requirement", "CHECK-23")
	p, _ := exported(t)
	var b bytes.Buffer
	if err := p.WriteITF(&b, `model: "p"`); err != nil {
		t.Fatal(err)
	}
	var itf struct {
		Meta   map[string]string `json:"#meta"`
		Vars   []string
		Loop   *int
		States []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &itf); err != nil {
		t.Fatalf("%v in %s", err, b.String())
	}
	last := itf.States[3]
	if itf.Meta["format"] != "ITF" || len(itf.Vars) != 4 || itf.Loop == nil || *itf.Loop != 1 || len(itf.States) != 4 ||
		last["n"].(map[string]any)["#bigint"] != "1" || last["odd"] != true || last["say"] != `a\"b"` || last["action"] != "C" {
		t.Errorf("ITF: %s", b.String())
	}
	b.Reset()
	stutter := &Path{Steps: p.Steps[:2], Loop: 2}
	if err := stutter.WriteITF(&b, "p"); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b.Bytes(), &itf); err != nil || *itf.Loop != 1 {
		t.Errorf("a last state that stutters has loop %v: %s", itf.Loop, b.String())
	}
}

func TestGraphDOT(t *testing.T) {
	t.Attr("requirement", "CHECK-26")
	_, g := exported(t)
	var b bytes.Buffer
	if err := g.WriteDOT(&b); err != nil {
		t.Fatal(err)
	}
	want := `digraph "graph" {
  node [shape=box, fontname=monospace];
  s0 [label="n = 0\nodd = false\nsay = a\\\"b\"", peripheries=2];
  s1 [label="n = 1\nodd = true\nsay = a\\\"b\""];
  s2 [label="n = 2\nodd = false\nsay = a\\\"b\""];
  s0 -> s1 [label="A"];
  s1 -> s2 [label="B(who=the \"first\")"];
  s2 -> s1 [label="C"];
}
`
	if b.String() != want {
		t.Errorf("DOT:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestGraphAUT(t *testing.T) {
	t.Attr("requirement", "CHECK-26")
	_, g := exported(t)
	var b bytes.Buffer
	if err := g.WriteAUT(&b); err != nil {
		t.Fatal(err)
	}
	want := "des (0, 3, 3)\n(0, \"A\", 1)\n(1, \"B(who=the 'first')\", 2)\n(2, \"C\", 1)\n"
	if b.String() != want {
		t.Errorf("AUT:\n%s\nwant:\n%s", b.String(), want)
	}
	g.Initial = []int{0, 2}
	b.Reset()
	_ = g.WriteAUT(&b) // a bytes.Buffer never fails
	want = "des (0, 5, 4)\n(0, \"init\", 1)\n(0, \"init\", 3)\n(1, \"A\", 2)\n(2, \"B(who=the 'first')\", 3)\n(3, \"C\", 2)\n"
	if b.String() != want {
		t.Errorf("AUT of two initial states:\n%s\nwant:\n%s", b.String(), want)
	}
}

// TestReportJSON pins the names that other tools read.
func TestReportJSON(t *testing.T) {
	t.Attr("requirement", "CHECK-28")
	arrows := []arrow{{0, actA, 1}}
	r, err := Check(context.Background(), graphModel(arrows, nil, Always("p", func(s line) bool { return s.N == 0 }, "CHECK-1")), Options{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.Timing = Timing{}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"name":"graph","config":"","verdict":"violated","reason":"violated: \"p\"","states":2,"distinct":2,"depth":2,"terminal":1,"complete":true,` +
		`"action_counts":[{"name":"A","enabled":1,"taken":1,"changed":1},{"name":"B","enabled":0,"taken":0,"changed":0},{"name":"C","enabled":0,"taken":0,"changed":0}],` +
		`"properties":[{"name":"p","kind":"always","verdict":"violated","requirements":["CHECK-1"],"path":{"steps":[` +
		`{"changed":[{"name":"N","value":"0"}],"state":[{"name":"N","value":"0"}]},` +
		`{"action":"A","changed":[{"name":"N","value":"1"}],"state":[{"name":"N","value":"1"}]}],"loop":-1}}],` +
		`"transitions":1,"expected_collisions":0,"exact":false,"timing":{"seconds":0,"workers":0,"peak_bytes":0}}`
	if string(got) != want {
		t.Errorf("JSON:\n%s\nwant:\n%s", got, want)
	}
}
