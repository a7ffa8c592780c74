package tunnel

import (
	"strings"
	"testing"

	"microvms/model/modeltest"
)

// TestGoldenRecord holds every configuration to its record, and the properties
// to the planted faults.
func TestGoldenRecord(t *testing.T) {
	modeltest.Judge(t, modeltest.Record{
		Suite: Suite(), Published: func(name string) bool { return strings.HasPrefix(name, "m4-") },
		Left: func(name string) bool { return name == Path().Name && !bigCounts },
	})
}
