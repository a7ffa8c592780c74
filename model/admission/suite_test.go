package admission

import (
	"testing"

	"microvms/model/modeltest"
)

// TestGoldenRecord holds every configuration to its record, and the properties
// to the planted faults.
func TestGoldenRecord(t *testing.T) {
	for _, id := range []string{"XPORT-4", "XPORT-5", "XPORT-6", "XPORT-7", "XPORT-8", "XPORT-9", "XPORT-10", "XPORT-17", "XPORT-30", "XPORT-31", "XPORT-32", "AUTHZ-4"} {
		t.Attr("requirement", id)
	}
	modeltest.Judge(t, modeltest.Record{Suite: Suite()})
}

// TestBoundsAreChecked checks that a configuration out of bounds is refused.
func TestBoundsAreChecked(t *testing.T) {
	edited := func(edit func(*Config)) func() {
		return func() { c := Held(); edit(&c); New(c) }
	}
	modeltest.Panics(t, edited(func(c *Config) { c.Conns = 0 }), edited(func(c *Config) { c.Conns = MaxConns + 1 }),
		edited(func(c *Config) { c.Cap = 0 }), edited(func(c *Config) { c.Kinds = nil }), edited(func(c *Config) { c.Kinds = []Kind{Health} }))
}
