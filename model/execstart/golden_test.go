//go:build !race

package execstart

import (
	"strings"
	"testing"

	"microvms/model"
	"microvms/model/modeltest"
)

// TestGoldenRecord holds every configuration to its record, and the properties
// to the planted faults.
func TestGoldenRecord(t *testing.T) {
	r := modeltest.Record{Suite: Suite(), Published: func(name string) bool { return strings.HasPrefix(name, "m3") }}
	for _, d := range Deviations() {
		c := d.atomic()
		r.Candidates = append(r.Candidates, modeltest.Candidate{Name: c.Name, Deviation: d.String(), Check: func() (*model.Report, error) {
			return model.Check(t.Context(), NewAtomic(c), model.Options{})
		}})
	}
	modeltest.Judge(t, r)
}
