package executor

import (
	"math"

	"microvms/agentd/api/msp"
	"microvms/agentd/execution"
)

// safeTailBytes is how much of each output a run in mode safe keeps, the
// newest (manager facts, section 4.6).
const safeTailBytes = 4194304

// boundedLog says whether the log of a run in this mode is bounded.
func boundedLog(m msp.DebugMode) bool { return !m.AtLeast(msp.DebugSafeUnbounded) }

// captureOf is what is kept of the output of a run. Bytes are kept as they
// come: what is no UTF-8 is not replaced, since output is the contract's and
// not the manager's to repair.
func captureOf(m msp.DebugMode) *execution.Capture {
	switch {
	case m.AtLeast(msp.DebugSafeUnbounded):
		return &execution.Capture{HeadBytes: math.MaxInt, RingBytes: -1} // EXECUTOR-23: what a run prints is what its caller asked to have
	case m.AtLeast(msp.DebugSafe):
		// EXECUTOR-21: of a long run the end tells most. The table cuts it on a boundary of characters.
		return &execution.Capture{HeadBytes: -1, TailBytes: safeTailBytes, RingBytes: -1}
	}
	return &execution.Capture{Discard: true, HeadBytes: -1, RingBytes: -1} // EXECUTOR-20: nobody may read it, so nobody holds it
}
