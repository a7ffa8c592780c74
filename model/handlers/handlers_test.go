package handlers

import (
	"testing"

	"microvms/model/modeltest"
)

// TestGoldenRecord holds every configuration to its record, and the properties
// to the planted faults.
func TestGoldenRecord(t *testing.T) {
	for _, id := range []string{"HOOK-2", "HOOK-13", "HOOK-14", "HOOK-15", "HOOK-16", "HOOK-20", "HOOK-22", "HOOK-23"} {
		t.Attr("requirement", id)
	}
	modeltest.Judge(t, modeltest.Record{Suite: Suite()})
}
