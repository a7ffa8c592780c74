package manager

import (
	"context"
	"fmt"
	"slices"
)

// close ends every run of the present boot, once the clients are done, and lets
// every connection that is left hear of it: a request that changes nothing is
// answered behind all that waits. Then it reads and releases every run.
func (r *recorder) close(ctx context.Context) error {
	s, err := r.connect(ctx, Clients)
	if err != nil {
		return err
	}
	ask := func(s *session, op Operation) (*Operation, error) {
		op.Client, op.Boot = Clients, s.conn.Boot
		if err := r.perform(ctx, s, []*Operation{&op}, 0); err != nil {
			return nil, err
		}
		if !op.Known() {
			return nil, fmt.Errorf("%s: the connection ended", op.Label())
		}
		return &op, nil
	}
	// Runs whose replies nobody saw: a token finds its own, and the last id shows how many there were.
	for _, t := range tokens {
		if _, err := ask(s, Operation{Kind: Run, Token: t, Program: Refused}); err != nil {
			return err
		}
	}
	if _, err := ask(s, Operation{Kind: Run, Bare: true, Program: Refused}); err != nil {
		return err
	}
	ids := slices.Clone(r.ids)
	for _, id := range ids {
		if _, err := ask(s, Operation{Kind: Cancel, Run: id}); err != nil {
			return err
		}
		a, err := ask(s, Operation{Kind: Attach, Run: id})
		if err != nil {
			return err
		}
		if t := a.Answer.Snapshot; t != nil && !t.Ended() {
			if err := s.await(ctx, s.ended(id)); err != nil {
				return fmt.Errorf("run %d, which was cancelled: %w", id, err)
			}
		}
	}
	for _, left := range slices.Clone(r.sessions) {
		select {
		case <-left.done:
			continue
		default:
		}
		if _, err := ask(left, Operation{Kind: Cancel, Run: neverGiven}); err != nil {
			return err
		}
		if left == s {
			continue
		}
		r.stayed[left] = true
		left.leave()
	}
	for _, id := range ids {
		for _, op := range []Operation{{Kind: Read, Field: "stdout", Max: 1 << 20}, {Kind: Ack}, {Kind: Ack}, {Kind: Attach}} {
			op.Run = id
			if _, err := ask(s, op); err != nil {
				return err
			}
		}
	}
	// A token is free again, unless a request that was cut off comes just now.
	for _, t := range tokens {
		a, err := ask(s, Operation{Kind: Run, Token: t, Program: Refused})
		if err != nil {
			return err
		}
		if _, err := ask(s, Operation{Kind: Cancel, Run: a.Answer.Run}); err != nil {
			return err
		}
		if err := s.await(ctx, s.ended(a.Answer.Run)); err != nil {
			return fmt.Errorf("%s, which was cancelled: %w", a.Label(), err)
		}
	}
	r.stayed[s] = true
	s.leave()
	return nil
}
