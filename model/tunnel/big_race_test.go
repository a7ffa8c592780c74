//go:build race

package tunnel

const bigCounts = false
