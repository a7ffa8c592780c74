package agentd_test

import (
	"context"
	"testing"
	"time"

	"microvms/agentd/trace"
	"microvms/agentd/trace/tracetest"
)

// clock is a clock that stands still until a test moves it.
type clock struct{ *tracetest.Clock }

func newClock(epoch int64) *clock { return &clock{tracetest.NewClock(time.Unix(epoch, 0))} }

// awaitArmed waits, at most for the failsafe, until a timer of this duration is
// armed.
func (c *clock) awaitArmed(t *testing.T, want time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), failsafe)
	defer cancel()
	if err := c.AwaitSpan(ctx, want); err != nil {
		t.Fatalf("no timer of %v is armed: %v", want, c.Spans())
	}
}

// stopped is a clock whose timers run and whose hands stand still.
type stopped struct {
	trace.System
	at int64
}

func (s stopped) Now() time.Time { return time.Unix(s.at, 0) }
