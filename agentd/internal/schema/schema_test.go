package schema

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api"
)

// TestShapes checks the generator on each kind of field that the wire has: the
// expected text is written by hand from the wire facts, section 12.
func TestShapes(t *testing.T) {
	t.Attr("requirement", "SCHEMA-13")
	type inner struct {
		A string `json:"a"`
	}
	type Outer struct {
		ID    string            `json:"id" schema:"required"`
		Count uint              `json:"count" default:"0"`
		Big   *uint64           `json:"big"`
		Code  *int32            `json:"code" default:"null"`
		Sec   *float64          `json:"sec,omitzero"`
		List  []string          `json:"list"`
		Raw   []byte            `json:"raw"`
		Env   map[string]string `json:"env,omitempty"`
		Phase api.Phase         `json:"phase"`
		User  *api.NameOrID     `json:"user"`
		*inner
	}
	properties := `"properties":{"a":{"type":"string"},"big":{"format":"uint64","minimum":0,"type":["integer","null"]},` +
		`"code":{"default":null,"format":"int32","type":["integer","null"]},"count":{"default":0,"format":"uint","minimum":0,"type":"integer"},` +
		`"env":{"additionalProperties":{"type":"string"},"type":"object"},"id":{"type":"string"},"list":{"items":{"type":"string"},"type":"array"},` +
		`"phase":{"$ref":"#/$defs/Phase"},"raw":{"type":"string"},"sec":{"format":"double","type":["number","null"]},` +
		`"user":{"anyOf":[{"$ref":"#/$defs/NameOrId"},{"type":"null"}]}}`
	for _, c := range []struct {
		name string
		add  func(*Definitions)
		want string
	}{
		{"response", func(d *Definitions) { d.Response(Outer{}) },
			properties + `,"required":["id","count","big","code","list","raw","phase","user"],"type":"object"}`},
		{"request", func(d *Definitions) { d.Request(Outer{}) }, properties + `,"required":["id"],"type":"object"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := New()
			c.add(d)
			got, err := Marshal(d.All()["Outer"].(Object))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff("{"+c.want, string(got)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSeconds checks that limits in seconds read as fractions.
func TestSeconds(t *testing.T) {
	for in, want := range map[float64]string{15: "15.0", 0.25: "0.25", 0: "0.0"} {
		if got := string(Seconds(in)); got != want {
			t.Errorf("Seconds(%v) = %s, want %s", in, got, want)
		}
	}
}
