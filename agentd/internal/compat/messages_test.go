package compat

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fieldRule is a field as a party reads it. Absent: the party does not know it.
type fieldRule struct{ known, required, byDefault, nullable bool }

type shapeRule [3]fieldRule // of the fields a, b, c

func (s shapeRule) text() string {
	var fields []string
	for i, f := range s {
		if !f.known {
			continue
		}
		name := string(rune('a' + i))
		for mark, set := range map[string]bool{"!": f.required, "=": f.byDefault, "?": f.nullable} {
			if set {
				name += mark
			}
		}
		fields = append(fields, name)
	}
	return object(fields...)
}

// sends reports whether a party with this shape may send a message with the
// fields in the bit set: all that it always sends, none that it does not know.
func (s shapeRule) sends(message int) bool {
	for i, f := range s {
		has := message&(1<<i) != 0
		if has && !f.known || !has && f.known && f.required {
			return false
		}
	}
	return true
}

// answers reports whether a client of this shape can read the answer.
// reader says what it does without: before it was built, a field that it reads
// as null; and in both cases one with a default.
func (s shapeRule) answers(message int, nullServes bool) bool {
	for i, f := range s {
		if message&(1<<i) == 0 && f.known && f.required && !f.byDefault && !(nullServes && f.nullable) {
			return false
		}
	}
	return true
}

// demands reports whether a daemon of this shape accepts the request.
func (s shapeRule) demands(message int) bool {
	for i, f := range s {
		if message&(1<<i) == 0 && f.known && f.required {
			return false
		}
	}
	return true
}

// someMessage reports whether a message exists that from may send and that
// fails to.
func someMessage(from shapeRule, fails func(message int) bool) bool {
	for message := range 1 << len(from) {
		if from.sends(message) && fails(message) {
			return true
		}
	}
	return false
}

func drawShape(t *rapid.T, label string) (s shapeRule) {
	for i := range s {
		n := rapid.IntRange(0, 15).Draw(t, fmt.Sprint(label, i))
		s[i] = fieldRule{n&1 != 0, n&2 != 0, n&4 != 0, n&8 != 0}
	}
	return s
}

// TestRulesAgainstMessages holds the rules to what they are for: it plays every
// message that one side may send to the other side, in both directions, and a
// break is found exactly where one of them fails.
func TestRulesAgainstMessages(t *testing.T) {
	for _, id := range []string{"SCHEMA-6", "SCHEMA-7", "SCHEMA-8", "SCHEMA-9"} {
		t.Attr("requirement", id)
	}
	seen := map[bool]int{}
	rapid.Check(t, func(t *rapid.T) {
		last, next := drawShape(t, "last"), drawShape(t, "next")
		dropped := false
		for i := range last {
			dropped = dropped || last[i].known && !next[i].known
		}
		// Daemon to client: an old reader of new answers, a new reader of old ones.
		answers := someMessage(next, func(m int) bool { return !last.answers(m, true) }) ||
			someMessage(last, func(m int) bool { return !next.answers(m, false) })
		// Client to daemon: an old writer to a new daemon, a new writer to an old one.
		requests := dropped || someMessage(last, func(m int) bool { return !next.demands(m) }) ||
			someMessage(next, func(m int) bool { return !last.demands(m) })
		for _, c := range []struct {
			what  string
			part  func(string) string
			fails bool
		}{{"response", response, answers}, {"event", event, answers}, {"request", request, requests}, {"query", query, requests}} {
			a, b := doc("2", c.part(last.text()), ""), doc("2", c.part(next.text()), "")
			got := Compare(mustParse(t, a), mustParse(t, b))
			if (len(got) > 0) != c.fails {
				t.Fatalf("%s %s\nbecame %s\nbreaks %q; some message fails: %v", c.what, last.text(), next.text(), got, c.fails)
			}
			seen[c.fails]++
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("breaks and none must both occur: %v", seen)
	}
}

func mustParse(t *rapid.T, text []byte) *Document {
	d, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drawSchema returns a random schema with its definitions inline, and the same
// one with definitions that carry names of their own.
func drawSchema(t *rapid.T, depth int, prefix string, defs map[string]string) (inline, named string) {
	kind := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		kind %= 2
	}
	switch kind {
	case 0:
		return `{"type":"string"}`, `{"type":"string"}`
	case 1:
		return `{"type":["integer","null"],"format":"int32"}`, `{"type":["integer","null"],"format":"int32"}`
	case 2:
		a, b := drawSchema(t, depth-1, prefix, defs)
		return `{"type":"array","items":` + a + `}`, `{"type":"array","items":` + b + `}`
	case 3:
		a, b := drawSchema(t, depth-1, prefix, defs)
		return `{"type":"object","additionalProperties":` + a + `}`, `{"type":"object","additionalProperties":` + b + `}`
	case 4:
		a, b := drawSchema(t, depth-1, prefix, defs)
		return `{"anyOf":[` + a + `,{"type":"null"}]}`, `{"anyOf":[` + b + `,{"type":"null"}]}`
	}
	a, b := drawSchema(t, depth-1, prefix, defs)
	c, d := drawSchema(t, depth-1, prefix, defs)
	wrap := func(x, y string) string {
		return `{"type":"object","properties":{"p":` + x + `,"q":` + y + `},"required":["p"]}`
	}
	name := fmt.Sprint(prefix, len(defs))
	defs[name] = wrap(b, d)
	return wrap(a, c), `{"$ref":"#/$defs/` + name + `"}`
}

// TestRenamesPass checks that a document equals itself with every definition
// renamed, split or written in place.
func TestRenamesPass(t *testing.T) {
	t.Attr("requirement", "SCHEMA-12")
	rapid.Check(t, func(t *rapid.T) {
		defs := map[string]string{}
		inline, named := drawSchema(t, 4, "N", defs)
		var all []string
		for name, text := range defs {
			all = append(all, fmt.Sprintf("%q:%s", name, text))
		}
		parts := func(s string) string {
			return request(s) + `,"response":{"schema":` + s + `},"sse_events":[{"event":"e","schema":` + s + `}]`
		}
		a := mustParse(t, doc("2", parts(inline), ""))
		b := mustParse(t, doc("2", parts(named), strings.Join(all, ",")))
		if got := append(Compare(a, b), Compare(b, a)...); len(got) > 0 {
			t.Fatalf("%s\nand %s with %v: %q", inline, named, defs, got)
		}
	})
}

// FuzzParse feeds bytes: what is accepted can be compared with itself and
// listed, and nothing crashes.
func FuzzParse(f *testing.F) {
	f.Add(read(f, committed+"current.json"))
	for _, r := range rules {
		f.Add(doc("2", r.last, ""))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			return
		}
		if got := Compare(d, d); len(got) > 0 {
			t.Errorf("a document breaks itself: %q", got)
		}
		if len(Lines(d)) < 2 {
			t.Error("an accepted document lists nothing")
		}
	})
}
