package execution

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// WatchGroup returns a function that blocks until the command's result is
// stored and its process group has no live member any more, and that signals
// nobody. Who left the group is not waited for, so it may return while they
// run; a group that never ends is waited for for ever. The function is to be
// called once, and until it has returned the group outlives its record.
//
// The end is believed only when two looks at the process table in a row agree:
// in pids, start times and membership of every process, and in that no member
// lives. One look is not one moment: a member may fork behind it and exit
// before it. Where the kernel itself knows that the group is empty, that is the
// whole look.
//
// It returns the context's error, ErrClosed once the registry was closed, or an
// error when a process's record cannot be read: a group that cannot be seen
// must not count as ended.
func (e *Exec) WatchGroup() (wait func(context.Context) error) {
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	e.group.watchers++
	return func(ctx context.Context) error {
		defer e.unwatch()
		return e.awaitGroupEnd(ctx)
	}
}

func (e *Exec) unwatch() {
	e.mu.Lock()
	removed := e.removed && !e.escalatingLocked()
	e.mu.Unlock()
	e.group.mu.Lock()
	defer e.group.mu.Unlock()
	if e.group.watchers--; removed && e.group.watchers == 0 {
		e.group.endLocked()
	}
}

func (e *Exec) awaitGroupEnd(ctx context.Context) error {
	r := e.reg
	select {
	case <-e.done: // EXEC-37: the result first, so that it was there to be read
	case <-r.base.Done():
		return ErrClosed
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for {
		ended, err := e.group.endedTwice()
		switch {
		case r.base.Err() != nil:
			return ErrClosed // and what was seen may be the end of the looking
		case err != nil:
			return fmt.Errorf("cannot see whether the group has ended: %w", err)
		case ended:
			return nil
		}
		tick := make(chan struct{})
		timer := r.cfg.Clock.AfterFunc(r.cfg.ScanInterval, func() { close(tick) })
		select {
		case <-tick:
		case <-r.base.Done():
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// look is what one look at the process table found.
type look struct {
	empty     bool // the kernel knows that the group is; then nothing was listed
	vanished  bool // a process ended between its listing and its record
	live      bool // a member of the group can still act
	processes []seen
}

// seen is one process of a look.
type seen struct {
	member      // pid and start time
	ours   bool // of the group
}

func (l look) equal(m look) bool {
	return l.empty == m.empty && slices.Equal(l.processes, m.processes)
}

// endedTwice takes two looks and says whether both saw the group's end and
// agree.
func (g *group) endedTwice() (bool, error) {
	first, err := g.look()
	if err != nil || first.live || first.vanished {
		return false, err // POWER-4: what vanished meanwhile makes the look void, not the group empty
	}
	second, err := g.look()
	return err == nil && !second.live && !second.vanished && first.equal(second), err
}

// look lists all processes and who of them is in the group.
func (g *group) look() (look, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.id == 0 || g.gone || g.empty() {
		return look{empty: true}, nil
	}
	all, err := g.table.pids()
	if err != nil {
		return look{}, err
	}
	var l look
	proven := !g.collected
	for _, pid := range all {
		p, err := g.table.stat(pid)
		if errors.Is(err, fs.ErrNotExist) {
			l.vanished = true
			continue
		}
		if err != nil {
			return look{}, err
		}
		m := seen{member{p.pid, p.start}, p.pgrp == g.id}
		l.processes = append(l.processes, m)
		if !m.ours {
			continue
		}
		proven = proven || g.proves(m.member, p)
		live, err := g.acts(p)
		if err != nil {
			return look{}, err
		}
		l.live = l.live || live
	}
	if !proven && g.handle.probe() != groupPresent {
		return look{empty: true}, nil // those who bear the number are strangers
	}
	return l, nil
}

// acts is process.live with its error: a zombie is dead only when all of its
// other threads have ended.
func (g *group) acts(p process) (bool, error) {
	if !p.dead() {
		return true, nil
	}
	if p.threads <= 1 {
		return false, nil
	}
	live, err := g.table.threads(p.pid)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil // it ends right now: the next look will know
	}
	return live, err
}
