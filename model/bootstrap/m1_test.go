package bootstrap

import (
	"testing"

	"microvms/model"
)

// TestPublishedCounts checks the published model against the numbers that the
// publication gives: the exact set of violated properties with the length of
// each counterexample, and every count.
func TestPublishedCounts(t *testing.T) {
	t.Attr("requirement", "CHECK-6")
	t.Attr("requirement", "AUTHZ-9")
	for _, p := range m1Published {
		t.Run(p.config.Name, func(t *testing.T) {
			r, err := model.Check(t.Context(), NewM1(p.config), model.Options{Workers: 2})
			if err != nil {
				t.Fatal(err)
			}
			for _, difference := range p.expect.Compare(r) {
				t.Error(difference)
			}
			witnesses := map[string]int{
				"the platform bootstraps": 1, "a hijack is refused": 2, "an identical replay is accepted": 2,
				"an exec is acknowledged": 4, "a start is retried": 3, "an unauthorized caller is refused": 2,
			}
			for _, p := range r.Properties {
				if want, ok := witnesses[p.Name]; ok && (p.Path == nil || p.Path.Len() != want) {
					t.Errorf("witness %q has path %v, want length %d", p.Name, p.Path, want)
				}
			}
		})
	}
}
