package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	manager "microvms/conformance/hostile/manager"
)

const (
	// managerPermits is the pool of a manager that is judged; a run takes one.
	managerPermits = 64
	// promptReply is the most that a control reply of a manager may take beside bulk (hostile input facts, row W8).
	promptReply = 50 * time.Millisecond
)

// wants reports whether a row of hostile input was asked for.
func (c *cli) wants(row string) bool { return len(c.Rows) == 0 || slices.Contains(c.Rows, row) }

// hostileManager plays the manager's rows, each against a process of its own.
func (c *cli) hostileManager(ctx context.Context, r *report) {
	for _, row := range manager.Rows() {
		if !c.wants(row.ID) {
			continue
		}
		if ctx.Err() != nil {
			r.add(entry{Part: "hostile", Name: row.ID, Verdict: leftOut, Text: "interrupted"})
			continue
		}
		p, err := manager.Start(ctx, c.Manager, c.Executor, managerPermits)
		if err != nil {
			r.add(entry{Part: "hostile", Name: row.ID, Verdict: inconclusive, Text: err.Error()})
			continue
		}
		result := manager.Run(ctx, manager.Target{
			Network: "tcp", Address: p.Address, PID: p.PID(), Executors: p.Executors(), Log: p.Log,
			Knobs: manager.Knobs{Prompt: promptReply},
		}, row)
		for _, n := range result.Notes {
			result.Name += "; " + n
		}
		survived(ctx, r, result, p.Stop())
	}
}

// preflightManager makes sure that there is a manager to judge, and that the executor does its part.
func (c *cli) preflightManager(ctx context.Context) error {
	p, err := manager.Start(ctx, c.Manager, c.Executor, managerPermits)
	if err != nil {
		return err
	}
	if err := p.Stop(); err != nil {
		return fmt.Errorf("the manager %q starts, but does not end with status 0 at SIGTERM: %w", c.Manager, err)
	}
	return nil
}
