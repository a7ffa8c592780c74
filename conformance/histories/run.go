package histories

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Starter starts a fresh daemon, configured to keep ring bytes of output for
// readers (0: its default), and returns its address and what stops it.
type Starter func(ctx context.Context, ring uint64) (addr string, stop func() error, err error)

// Config says what to run.
type Config struct {
	Scope     Scope
	Histories int    // how many
	Seed      uint64 // of the first history; each next one counts up, so one history can be run again
	Workers   int    // histories recorded at once
	PerDaemon int    // of scope ByExec: histories on one daemon, one after another
	Start     Starter
	FailDir   string // where failing histories are saved
	Root      string // of scope ByPath: an empty folder that the daemon sees under this absolute name; each history makes one in it

	// Token, when set, is the token that is installed on a daemon of scope ByExec already: it is not bootstrapped again,
	// and its ring is not known.
	Token string
}

// Ring is the number of bytes that the daemons of scope ByExec keep for readers: so few that readers lose some.
const Ring = 2 * Unit

// Run records and judges histories. What the daemon does wrong is in the result; the error is about running at all.
func Run(ctx context.Context, c Config) (*Result, error) {
	start := time.Now()
	r := &Result{Name: string(c.Scope), Requirements: map[string]int64{}, Failures: []string{}}
	r.Name = strings.ReplaceAll(r.Name, " ", "-")
	if c.Scope == ByPath && !strings.HasPrefix(c.Root, "/") {
		return r, fmt.Errorf("cannot use the root %q for histories of files: give an absolute path", c.Root)
	}
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next atomic.Int64
		bad  error
	)
	batch := 1
	if c.Scope != Whole {
		batch = max(c.PerDaemon, 1)
	}
	for range c.Workers {
		wg.Go(func() {
			for {
				from := next.Add(int64(batch)) - int64(batch)
				to := min(from+int64(batch), int64(c.Histories))
				if from >= to || ctx.Err() != nil {
					return
				}
				err := c.onOneDaemon(ctx, uint64(from), uint64(to), func(h *History) error {
					v, text := Judge(h)
					mu.Lock()
					defer mu.Unlock()
					return c.keep(r, h, v, text)
				})
				if err != nil {
					mu.Lock()
					bad = errors.Join(bad, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	r.Seconds = time.Since(start).Seconds()
	return r, errors.Join(bad, ctx.Err())
}

// samplesKept is how many histories of a run are kept for drawing.
const samplesKept = 2

func (c Config) keep(r *Result, h *History, v Verdict, text string) error {
	r.add(h, v, samplesKept)
	if v == Linearizable {
		return nil
	}
	path, err := h.save(c.FailDir)
	if v == NotLinearizable {
		r.Failures = append(r.Failures, fmt.Sprintf("%s (seed %d): %s; saved as %s", h.Name, h.Seed, text, path))
	}
	return err
}

// onOneDaemon records the histories from..to on one daemon.
func (c Config) onOneDaemon(ctx context.Context, from, to uint64, each func(*History) error) (err error) {
	ring := uint64(0)
	if c.Scope == ByExec && c.Token == "" {
		ring = Ring
	}
	addr, stop, err := c.Start(ctx, ring)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var party client
	switch {
	case c.Token != "":
		party.bearers, party.launch = map[string]string{HarnessToken: c.Token}, "1"
	case c.Scope == ByTunnel:
		if err := identified(ctx, addr); err != nil {
			return err
		}
	case c.Scope != Whole:
		if err := bootstrapped(ctx, addr); err != nil {
			return err
		}
	}
	for n := from; n < to; n++ {
		seed := c.Seed + n
		rng := rand.New(rand.NewPCG(seed, uint64(len(c.Scope))))
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(string(c.Scope), " ", "-"), seed)
		var p plan
		switch c.Scope {
		case ByExec:
			p = byExec(rng, fmt.Sprintf("h%d", seed), c.Token != "")
			p.ring, p.greet = ring, "env1"
		case ByPath:
			p = byPath(rng, fmt.Sprintf("%s/h%d", c.Root, seed))
			if err := party.emptyFolder(ctx, addr, p.clients[0][0].Root); err != nil {
				return err
			}
		case Whole:
			p = whole(rng)
		}
		if c.Scope == ByTunnel {
			p = byTunnel(rng, n == to-1)
			if party.tunnels, err = newTunnels(p, addr); err != nil {
				return err
			}
		}
		h, err := record(ctx, p, party, addr, name, seed)
		if party.tunnels != nil {
			party.tunnels.close()
		}
		if err != nil {
			return err
		}
		if err := each(h); err != nil {
			return err
		}
	}
	return nil
}

// bootstrapped finishes bootstrap with environment 1, before any operation that is judged.
func bootstrapped(ctx context.Context, addr string) error {
	c := &client{wire: wire{addr: addr}, clock: func() int64 { return 0 }}
	defer c.wire.close()
	a, err := c.perform(ctx, &Operation{Kind: Hook, Token: HarnessToken, Env: 1})
	if err != nil {
		return fmt.Errorf("cannot bootstrap the daemon: %w", err)
	}
	if a.Status != 200 {
		return fmt.Errorf("cannot bootstrap the daemon: status %d", a.Status)
	}
	return nil
}
