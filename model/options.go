package model

import (
	"io"
	"time"
)

// Mode selects the order in which a check walks the space.
type Mode uint8

const (
	// BFS is parallel breadth-first search: counterexamples are shortest. The default.
	BFS Mode = iota
	// DFS is sequential depth-first search: it needs memory for one path and the visited set only. Its counterexamples
	// are not shortest, Depth is the longest path it stood on, and it judges no Eventually or LeadsTo.
	DFS
)

// Options bound and steer a run. The zero value is a complete breadth-first
// search with one worker for each processor. A bound that is reached makes the
// verdict Inconclusive, and the report's Reason names it.
type Options struct {
	Workers int // goroutines that expand states; 0 means runtime.GOMAXPROCS(0). Changes no field of the report but Timing

	// MaxDepth is the number of levels: states on a path of this many states are checked, but not expanded. 0: no bound.
	MaxDepth int
	// MaxStates stops the search before the first level that starts with at least this many distinct states known. It
	// is looked at between levels, so that it stops at the same state for any number of workers. 0: no bound.
	MaxStates uint64
	// MaxBytes bounds the visited set, frontier and graph, in bytes. 0: no bound.
	MaxBytes uint64
	// Timeout bounds the run's wall-clock time. A context that ends does the same. 0: no bound.
	Timeout time.Duration

	// Exact compares whole states instead of fingerprints: slower, more memory, no collisions.
	Exact bool
	// Mode is breadth-first unless set.
	Mode Mode
	// StopAtFirst ends the search after the level in which the first property is violated. The other properties are
	// then inconclusive.
	StopAtFirst bool

	// Seed, Walks and WalkLength steer Simulate: walk i depends on (Seed, i) only. Zero means 1, 1000 and 100.
	Seed       uint64
	Walks      int
	WalkLength int

	// Progress, when set, gets a line a second while the run lasts: states, distinct, depth, queue, states/s, memory.
	// Report.Summary is the line for the end.
	Progress io.Writer

	// parallelMin is the size of a level from which several workers share it; 0 means the default. Tests lower it.
	parallelMin int
}
