//go:build race

package manager

const bigCounts = false
