package replay

import (
	"time"

	"microvms/agentd/trace/tracetest"
)

// Clock is the clock of a daemon that a driver drives in the test process: it
// stands still until it is moved.
type Clock = tracetest.Clock

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock { return tracetest.NewClock(start) }
