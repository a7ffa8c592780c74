//go:build race

package manager

const wholeGraphs = false
