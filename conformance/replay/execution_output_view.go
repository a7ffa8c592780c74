package replay

import (
	"context"
	"fmt"
	"strings"

	"microvms/agentd/api"
	"microvms/model/execution"
)

// observe reads the poll and what the readers have received.
func (o *outputSystem) observe(ctx context.Context) (Observation, error) {
	out, err := o.observeResult(ctx)
	if err != nil {
		return nil, err
	}
	for r := range o.config.Readers {
		x := &o.readers[r]
		if x.stream != nil {
			select {
			case f := <-x.stream.frames:
				return nil, fmt.Errorf("reader %d got an event that the model does not say: %+v", r, f)
			default:
			}
		}
		out = append(out, field(fmt.Sprintf("reader %d", r), fmt.Sprintf("%s @%d", receivedWord(x.got), x.want/unitBytes)))
	}
	return out, nil
}

// observeResult reads the poll.
func (o *outputSystem) observeResult(ctx context.Context) (Observation, error) {
	var poll api.PollResponse
	a, err := o.get(ctx, execRoute(api.PathExec, outputExec), &poll)
	if err != nil {
		return nil, err
	}
	if err := a.says("ok"); err != nil {
		return nil, err
	}
	return Observation{field("phase", poll.Phase), field("result", headWord(poll.Outcome))}, nil
}

// receivedWord renders received words as sets, since a model state does not
// keep their order; the order is held by the cursor.
func receivedWord(got string) string {
	var units, lost uint8
	exits := 0
	for _, word := range strings.Fields(got) {
		var from, to uint8
		switch n, _ := fmt.Sscanf(word, "gap%d-%d", &from, &to); {
		case n == 2:
			for u := from; u < to; u++ {
				lost |= 1 << u
			}
		case strings.HasPrefix(word, "exit"):
			exits++
		default:
			_, _ = fmt.Sscanf(word, "%d", &from)
			units |= 1 << from
		}
	}
	return fmt.Sprintf("units=%b lost=%b exits=%d", units, lost, exits)
}

// headWord renders the output of a result.
func headWord(o *api.Outcome) string {
	if o == nil {
		return "none"
	}
	return fmt.Sprintf("stdout=%q stderr=%q truncated=%v writers=%v", o.Stdout, o.Stderr, o.Truncated, o.WritersMayBeAlive)
}

// headOf is the output of the result of a state.
func headOf(s execution.OutputState, c execution.OutputConfig) string {
	var text [2]string
	truncated := false
	for unit := range s.Published {
		if stream := unit % 2; unit/2 < s.Head[stream] {
			text[stream] += unitText(unit)
		} else {
			truncated = true
		}
	}
	return fmt.Sprintf("stdout=%q stderr=%q truncated=%v writers=%v", text[0], text[1], truncated, s.Linger == execution.Fired)
}

// projectOutput is what must be observed of a state.
func projectOutput(s execution.OutputState, c execution.OutputConfig) Observation {
	phase := map[execution.Phase]string{execution.Running: "running", execution.Exited: "exited", execution.Acked: "acked"}[s.Phase]
	result := "none"
	if s.Phase == execution.Exited {
		result = headOf(s, c)
	}
	out := Observation{field("phase", phase), field("result", result)}
	for r := range c.Readers {
		x := s.Reader[r]
		out = append(out, field(fmt.Sprintf("reader %d", r), fmt.Sprintf("units=%b lost=%b exits=%d @%d", x.Got, x.Gaps, x.Exits, cursorOf(s, x))))
	}
	return out
}

// cursorOf is the offset that a client would resume at: after the exit event,
// the total that it told.
func cursorOf(s execution.OutputState, x execution.Reader) uint8 {
	if x.Phase == execution.Done {
		return s.Total
	}
	return x.Want
}
