//go:build !race

package bench

import "testing"

// TestBigPublishedCounts checks the ports of more than a million generated
// states against their published counts.
func TestBigPublishedCounts(t *testing.T) {
	t.Attr("requirement", "CHECK-6")
	n := 0
	for _, row := range Table() {
		if row.Big() {
			n++
			t.Run(row.Name(), func(t *testing.T) { checkRow(t, row) })
		}
	}
	if n < 7 {
		t.Errorf("looked at %d rows, expected at least 7", n)
	}
}
