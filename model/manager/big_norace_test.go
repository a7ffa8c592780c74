//go:build !race

package manager

// bigCounts: counts of more than a million steps take minutes under the race
// detector.
const bigCounts = true
