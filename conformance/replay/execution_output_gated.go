package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"microvms/agentd/trace"
	"microvms/model/execution"
)

// ExecOutputGated replays an interleaved configuration of the output model: each
// publication, each event to a reader and the exit are held and let go when the
// model takes them. It needs a daemon with a gate, which runs in the test
// process.
//
// The table of actions and operations, beside those of [ExecOutput]:
//
//	ChildWrite     write, and wait until the unit stands before OutputPublish
//	OutputPublish  let it go
//	StreamDeliver  let the reader go
//	StreamGap      let the reader go; one that stood before StreamDeliver when its bytes left the ring stands again
//	StreamExit     let the reader go, and compare all that its client received
//	ExecExit       let it go
//
// An event is sent together with those that are ready behind it, so a client may
// receive it later than the daemon hands it out; until the exit, what a reader
// got is read from the recorder.
func ExecOutputGated(c execution.OutputConfig, start ExecStarter) Spec[execution.OutputState] {
	return outputSpec(c, "in-process", start, holdsOutput, func(s *outputSystem) Driver[execution.OutputState] {
		return &gatedOutputDriver{outputSystem: s}
	})
}

// holdsOutput selects the steps of the store and of the readers.
func holdsOutput(p trace.Point) bool {
	switch p.Action {
	case trace.OutputPublish, trace.StreamDeliver, trace.StreamGap, trace.StreamExit, trace.ExecExit:
		return true
	}
	return false
}

type gatedOutputDriver struct {
	*outputSystem
	handed [execution.MaxReaders]string // what the daemon handed out to each reader
}

// Do takes one step.
func (d *gatedOutputDriver) Do(ctx context.Context, t Transition[execution.OutputState]) error {
	mark, r := d.mark(), t.Action.Arg[0]
	switch t.Action.ID {
	case execution.ChildWrite:
		if err := d.outputAct(ctx, t, mark); err != nil {
			return err
		}
		_, err := d.stands(ctx, trace.OutputPublish, 0)
		return err
	case execution.OutputPublish:
		return d.letGo(ctx, mark, trace.OutputPublish)
	case execution.OutputExit:
		return d.letGo(ctx, mark, trace.ExecExit)
	case execution.WriterLead:
		if err := d.outputAct(ctx, t, mark); err != nil {
			return err
		}
		_, err := d.await(ctx, mark, []wanted{{action: string(trace.LeaderReap), exec: outputExec}})
		return err
	case execution.StreamAttach:
		return d.attachReader(ctx, r, t.Action.Arg[1], mark)
	case execution.StreamDeliver, execution.StreamGap, execution.StreamExit:
		return d.hand(ctx, t, r, mark)
	}
	return d.outputAct(ctx, t, mark)
}

// stands waits until a goroutine stands before the action; reader 0 is any.
func (d *gatedOutputDriver) stands(ctx context.Context, action trace.Action, reader uint64) (*Parked, error) {
	parked, err := d.daemon.Gate.Await(ctx, func(p trace.Point) bool { return p.Action == action && p.Reader == reader })
	if err != nil {
		return nil, fmt.Errorf("nothing stands before %s: %w", action, err)
	}
	return parked, nil
}

func (d *gatedOutputDriver) letGo(ctx context.Context, mark uint64, action trace.Action) error {
	parked, err := d.stands(ctx, action, 0)
	if err != nil {
		return err
	}
	parked.Release()
	_, err = d.await(ctx, mark, []wanted{{action: string(action), exec: outputExec}})
	return err
}

// hand lets a reader go and notes what it was handed.
func (d *gatedOutputDriver) hand(ctx context.Context, t Transition[execution.OutputState], r uint8, mark uint64) error {
	action := map[uint16]trace.Action{
		execution.StreamDeliver: trace.StreamDeliver, execution.StreamGap: trace.StreamGap, execution.StreamExit: trace.StreamExit,
	}[t.Action.ID]
	serial := d.readers[r].serial
	for {
		parked, err := d.daemon.Gate.Await(ctx, func(p trace.Point) bool { return p.Reader == serial })
		if err != nil {
			return fmt.Errorf("reader %d stands before nothing: %w", r, err)
		}
		stale := action == trace.StreamGap && parked.Point.Action == trace.StreamDeliver
		if parked.Point.Action != action && !stale {
			return fmt.Errorf("reader %d stands before %s, the model says %s", r, parked.Point.Action, action)
		}
		parked.Release()
		if !stale {
			break
		}
	}
	events, err := d.await(ctx, mark, []wanted{{action: string(action), exec: outputExec, reader: serial}})
	if err != nil {
		return err
	}
	word, err := handedWord(events[0])
	if err != nil {
		return err
	}
	d.handed[r] = strings.TrimSpace(d.handed[r] + " " + word)
	if action != trace.StreamExit {
		return nil
	}
	return d.whole(ctx, r)
}

// whole reads a client's stream to its end, and compares it with what the
// daemon handed out.
func (d *gatedOutputDriver) whole(ctx context.Context, r uint8) error {
	for {
		word, err := d.takes(ctx, r)
		if err != nil {
			return err
		}
		if word == "end" {
			break
		}
	}
	if got := d.readers[r].got; got != d.handed[r] {
		return fmt.Errorf("reader %d received %q, the daemon handed out %q", r, got, d.handed[r])
	}
	return nil
}

// handedWord renders an event of a reader as its client's frames are rendered.
func handedWord(e trace.Event) (string, error) {
	at := map[string]int64{}
	for _, a := range e.Attrs {
		if n, ok := a.Value.(int64); ok {
			at[a.Key] = n
		}
	}
	from, to := at["offset"]/unitBytes, at["to"]/unitBytes
	switch {
	case e.Action == trace.StreamExit:
		return fmt.Sprintf("exit%d", from), nil
	case e.Action == trace.StreamGap:
		return fmt.Sprintf("gap%d-%d", from, to), nil
	case at["offset"]%unitBytes != 0 || to != from+1:
		return "", errors.New("an event is not one unit")
	}
	return fmt.Sprint(from), nil
}

// Observe reads the state back.
func (d *gatedOutputDriver) Observe(ctx context.Context, t Transition[execution.OutputState]) (Observation, error) {
	out, err := d.observeResult(ctx)
	if err != nil {
		return nil, err
	}
	for r := range d.config.Readers {
		out = append(out, field(fmt.Sprintf("reader %d", r), fmt.Sprintf("%s @%d", receivedWord(d.handed[r]), cursorWord(d.handed[r]))))
	}
	return out, nil
}

// cursorWord is the cursor after what was handed out from offset 0 on.
func cursorWord(handed string) int {
	cursor := 0
	for _, word := range strings.Fields(handed) {
		var from, to int
		switch n, _ := fmt.Sscanf(word, "gap%d-%d", &from, &to); {
		case n == 2:
			cursor = to
		case strings.HasPrefix(word, "exit"):
			_, _ = fmt.Sscanf(word, "exit%d", &cursor)
		default:
			cursor++
		}
	}
	return cursor
}

// Close lets everything go and ends it.
func (d *gatedOutputDriver) Close() error { return d.close() }
