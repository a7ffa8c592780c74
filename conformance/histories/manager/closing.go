package manager

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// closer is the client that comes when the others are done.
type closer struct {
	r   *recorder
	own *session
}

// close ends every run of the present boot, and lets every connection that is
// left hear of it. Then it reads and releases every run.
func (r *recorder) close(ctx context.Context) error {
	s, err := r.connect(ctx, Clients)
	if err != nil {
		return err
	}
	c := closer{r, s}
	ids, err := c.known(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.cancel(ctx, id); err != nil {
			return err
		}
	}
	if err := c.dismiss(ctx); err != nil {
		return err
	}
	for _, id := range ids {
		if err := c.release(ctx, id); err != nil {
			return err
		}
	}
	// A token is free again, unless a request that was cut off comes just now.
	for _, t := range tokens {
		a, err := c.ask(ctx, s, Operation{Kind: Run, Token: t, Program: Refused})
		if err != nil {
			return err
		}
		if err := c.cancel(ctx, a.Answer.Run); err != nil {
			return err
		}
	}
	return c.fence(ctx, s)
}

// ask performs one operation.
func (c closer) ask(ctx context.Context, s *session, op Operation) (*Operation, error) {
	op.Client, op.Boot = Clients, s.conn.Boot
	if err := c.r.perform(ctx, s, []*Operation{&op}, burst{}); err != nil {
		return nil, err
	}
	if !op.Known() {
		return nil, fmt.Errorf("%s: the connection ended", op.Label())
	}
	return &op, nil
}

// known finds the runs whose replies nobody saw: a token finds its own, and the
// last id shows how many there were. It returns the ids of all that are known.
func (c closer) known(ctx context.Context) ([]uint64, error) {
	for _, t := range tokens {
		if _, err := c.ask(ctx, c.own, Operation{Kind: Run, Token: t, Program: Refused}); err != nil {
			return nil, err
		}
	}
	if _, err := c.ask(ctx, c.own, Operation{Kind: Run, Bare: true, Program: Refused}); err != nil {
		return nil, err
	}
	return slices.Clone(c.r.ids), nil
}

// patience is how long the closer waits for the event of an ending before it looks
// for the ending itself. It judges nothing: an event that was lost is found later.
const patience = time.Second

// cancel ends a run and waits for its ending.
func (c closer) cancel(ctx context.Context, id uint64) error {
	if _, err := c.ask(ctx, c.own, Operation{Kind: Cancel, Run: id}); err != nil {
		return err
	}
	for begin := time.Now(); time.Since(begin) < answerLimit; {
		a, err := c.ask(ctx, c.own, Operation{Kind: Attach, Run: id})
		if err != nil {
			return err
		}
		if t := a.Answer.Snapshot; t == nil || t.Ended() {
			return nil // it was released, or this is the ending
		}
		if c.own.await(ctx, patience, c.own.ended(id)) == nil {
			return nil
		}
	}
	return fmt.Errorf("run %d was cancelled and did not end within %s", id, answerLimit)
}

// dismiss ends the connections that are left, each with a fence.
func (c closer) dismiss(ctx context.Context) error {
	for _, s := range slices.Clone(c.r.sessions) {
		select {
		case <-s.done:
			continue
		default:
		}
		if s == c.own {
			continue
		}
		if err := c.fence(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// fence ends a connection once everything that the manager queued for it has
// arrived: a request that changes nothing is answered behind it.
func (c closer) fence(ctx context.Context, s *session) error {
	if _, err := c.ask(ctx, s, Operation{Kind: Cancel, Run: neverGiven}); err != nil {
		return err
	}
	c.r.stayed[s] = true
	s.leave()
	return nil
}

// release reads a run and releases it, twice.
func (c closer) release(ctx context.Context, id uint64) error {
	for _, op := range []Operation{{Kind: Read, Field: "stdout", Max: 1 << 20}, {Kind: Ack}, {Kind: Ack}, {Kind: Attach}} {
		op.Run = id
		if _, err := c.ask(ctx, c.own, op); err != nil {
			return err
		}
	}
	return nil
}
