package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"microvms/conformance/histories"
	"microvms/conformance/hostile"
	"microvms/conformance/replay"
	"microvms/model/bootstrap"
	"microvms/model/execution"
)

// part is one way of judging.
type part struct {
	name string
	run  func(ctx context.Context, r *report)
}

var partNames = []string{"replay", "histories", "hostile"}

func (c *cli) parts() []part {
	if c.Manager != "" {
		return []part{{"hostile", c.hostileManager}}
	}
	return []part{{"replay", c.replay}, {"histories", c.histories}, {"hostile", c.hostile}}
}

// noReset is why a part needs more than a running daemon.
const noReset = "needs a fresh daemon for each: give --daemon or --reset"

// replay drives the daemon down the paths that need neither moved time nor forced interleavings.
func (c *cli) replay(ctx context.Context, r *report) {
	if c.Daemon == "" && c.Reset == "" {
		r.add(entry{Part: "replay", Name: "all models", Verdict: leftOut, Text: noReset})
		return
	}
	judge(ctx, r, replay.BootstrapSequential(bootstrap.Sequential(), c.target(), c.startReplay))
	for _, g := range execution.GroupReplays() {
		if !strings.Contains(g.Name, "binary") {
			r.add(entry{Part: "replay", Name: g.Name, Verdict: leftOut, Text: "needs moved time or forced interleavings inside the daemon"})
			continue
		}
		judge(ctx, r, replay.ExecGroup(g, c.target(), c.startExec))
	}
	for _, o := range execution.OutputReplays() {
		if !strings.Contains(o.Name, "binary") {
			r.add(entry{Part: "replay", Name: o.Name, Verdict: leftOut, Text: "needs moved time or forced interleavings inside the daemon"})
			continue
		}
		if c.Daemon == "" {
			r.add(entry{Part: "replay", Name: o.Name, Verdict: leftOut, Text: "needs a daemon with a replay window of a few bytes: give --daemon"})
			continue
		}
		judge(ctx, r, replay.ExecOutput(o, c.target(), c.startExec))
	}
	for _, s := range execution.StdinReplays() {
		if !strings.Contains(s.Name, "binary") {
			r.add(entry{Part: "replay", Name: s.Name, Verdict: leftOut, Text: "needs moved time"})
			continue
		}
		judge(ctx, r, replay.ExecStdin(s, c.target(), c.startExec))
	}
}

func judge[S comparable](ctx context.Context, r *report, s replay.Spec[S]) {
	s.Parallel = 1 // one daemon at a time where there is one endpoint
	result, err := replay.Run(ctx, s)
	e := entry{Part: "replay", Name: s.Model.Name + ":" + s.Model.Config, Verdict: holds}
	switch {
	case ctx.Err() != nil:
		e.Verdict, e.Text = inconclusive, "interrupted"
	case err != nil:
		e.Verdict, e.Text = inconclusive, err.Error()
	default:
		e.Text = fmt.Sprintf("%d of %d transitions on %d paths", result.Replayed, result.Transitions, result.Paths)
		e.Faults = result.Failures
		if err := result.Err(); err != nil {
			e.Verdict = violated
			if len(e.Faults) == 0 {
				e.Faults = []string{err.Error()}
			}
		}
	}
	r.add(e)
}

func (c *cli) histories(ctx context.Context, r *report) {
	for _, scope := range []histories.Scope{histories.Whole, histories.ByExec, histories.ByPath, histories.ByTunnel} {
		config := histories.Config{
			Scope: scope, Histories: c.Histories, Seed: c.Seed, Workers: 2, PerDaemon: 25, Start: c.startHistories, FailDir: c.Failures,
		}
		name := "judged " + string(scope)
		if scope == histories.ByPath {
			if c.Daemon == "" {
				r.add(entry{Part: "histories", Name: name, Verdict: leftOut, Text: "needs a folder that conform and the daemon share: give --daemon"})
				continue
			}
			root, err := os.MkdirTemp("", "conform-files-")
			if err != nil {
				r.add(entry{Part: "histories", Name: name, Verdict: inconclusive, Text: err.Error()})
				continue
			}
			defer os.RemoveAll(root)
			config.Root = root
		}
		if scope == histories.ByTunnel && c.Daemon == "" {
			r.add(entry{Part: "histories", Name: name, Verdict: leftOut, Text: "needs a daemon that is launched with an identity on this machine: give --daemon"})
			continue
		}
		if c.Daemon == "" {
			config.Workers = 1
			if scope == histories.Whole && c.Reset == "" {
				r.add(entry{Part: "histories", Name: name, Verdict: leftOut, Text: noReset})
				continue
			}
			if scope == histories.ByExec {
				config.PerDaemon = c.Histories
				config.Token = c.AgentToken
			}
		}
		result, err := histories.Run(ctx, config)
		e := entry{Part: "histories", Name: name, Verdict: holds}
		switch {
		case ctx.Err() != nil:
			e.Verdict = inconclusive
		case err != nil:
			e.Verdict, e.Faults = violated, []string{err.Error()}
		case len(result.Failures) > 0:
			e.Verdict, e.Faults = violated, result.Failures
		case result.Undecided > 0:
			e.Verdict = inconclusive
		}
		if result != nil {
			e.Text = fmt.Sprintf("%d histories, %d operations, %d overlapping, %d open, %d undecided",
				result.Histories, result.Operations, result.Overlapping, result.Open, result.Undecided)
		}
		r.add(e)
	}
}

// hostile plays the rows one after another: what one holds would count as the other's leak.
func (c *cli) hostile(ctx context.Context, r *report) {
	for _, row := range hostile.Rows() {
		if !c.wants(row.ID) {
			continue
		}
		if ctx.Err() != nil {
			r.add(entry{Part: "hostile", Name: row.ID, Verdict: leftOut, Text: "interrupted"})
			continue
		}
		target, stop, err := c.startHostile(ctx)
		if err != nil {
			r.add(entry{Part: "hostile", Name: row.ID, Verdict: inconclusive, Text: err.Error()})
			continue
		}
		result := hostile.Run(ctx, target, row)
		survived(ctx, r, result, stop())
	}
}

// survived enters what became of a row, and of the end of the process that it was played against.
func survived(ctx context.Context, r *report, result hostile.Result, end error) {
	e := entry{Part: "hostile", Name: result.ID, Verdict: holds, Text: fmt.Sprintf("%d cases, %s", result.Cases, result.Name), Faults: result.Failures}
	switch {
	case ctx.Err() != nil:
		// CONF-9: what an interrupt cut short says nothing about the daemon.
		e.Verdict, e.Faults = inconclusive, nil
	case result.Failed():
		e.Verdict = violated
	}
	if end != nil && ctx.Err() == nil {
		e.Verdict = violated
		e.Faults = append(e.Faults, "the process did not end well: "+end.Error())
	}
	r.add(e)
	for _, s := range result.Skipped {
		r.add(entry{Part: "hostile", Name: result.ID + " " + s.Case, Verdict: leftOut, Text: s.Reason})
	}
	for _, u := range result.Unseen {
		r.add(entry{Part: "hostile", Name: result.ID, Verdict: leftOut, Text: u})
	}
}
