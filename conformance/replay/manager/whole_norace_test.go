//go:build !race

package manager

// wholeGraphs: under the race detector the replays of whole graphs take minutes,
// and (action, abstract state) pairs take their place.
const wholeGraphs = true
