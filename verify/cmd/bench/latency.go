package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"time"
)

// The figures of the daemon. One daemon and one peer server live through all
// rounds; memory, which remembers, gets a fresh daemon each round.

const (
	trueName       = "exec of true, request to exit event, p50"
	trueTailName   = "exec of true, p99 beside its p50"
	trueLimitName  = "exec of true, p50, beside the limit programs"
	healthName     = "health, p50"
	healthTailName = "health, p99 beside its p50"
	healthLimit    = "health, p50, beside the limit program"
)

type bench struct {
	w      *workshop
	daemon *daemon
	peer   *process
	limit  *process     // daemon/http, nil without a folder of peers
	http   *http.Client // to the peers
	files  string       // folder with what is sent, empty until it is needed
	tmpfs  bool         // it lies in memory
}

func daemonExperiments(w *workshop) []experiment {
	b := &bench{w: w, http: newClient()}
	all := []experiment{
		{name: "daemon exec of true", setup: b.setup, round: b.execTrue, figures: []figure{
			{"daemon", trueName, "ms", "os/exec with own pipes + one HTTP round trip", atMost(1.3)},
			{"daemon", trueLimitName, "ms", "daemon/exec (Setsid, own pipes) + one round trip to daemon/http", atMost(1.3)},
			{"daemon", trueTailName, "ms", "its own p50", atMost(3)},
		}},
		{name: "daemon health", setup: b.setup, round: b.health, figures: []figure{
			{"daemon", healthName, "µs", "a bare net/http handler in a process of its own", atMost(1.5)},
			{"daemon", healthLimit, "µs", "daemon/http in a process of its own", atMost(1.5)},
			{"daemon", healthTailName, "µs", "its own p50", target{}},
		}},
		b.streamExperiment(),
		b.heldExperiment(),
	}
	all = append(all, b.filesExperiments()...)
	return append(all, b.tunnelExperiment(), b.crowdExperiment(), b.memoryExperiment(), b.binaryExperiment())
}

// setup starts the daemon and the peer server, once.
func (b *bench) setup(ctx context.Context) error {
	if b.daemon != nil {
		return nil
	}
	d, err := b.w.startDaemon(ctx)
	if err != nil {
		return err
	}
	b.w.atEnd(d.stop)
	if err := b.setupLimits(ctx); err != nil {
		return err
	}
	p, err := startPeer(ctx)
	if err != nil {
		return err
	}
	b.w.atEnd(func() { b.http.CloseIdleConnections(); p.stop() })
	b.daemon, b.peer = d, p
	return nil
}

// setupLimits builds the limit programs and starts the one that serves.
func (b *bench) setupLimits(ctx context.Context) error {
	if b.w.peers == "" {
		return nil
	}
	for _, name := range []string{"daemon/exec", "daemon/pipe"} {
		if _, err := b.w.limit(ctx, name); err != nil {
			return err
		}
	}
	program, err := b.w.limit(ctx, "daemon/http")
	if err != nil {
		return err
	}
	addr, err := freeAddress()
	if err != nil {
		return err
	}
	p, err := startListener(ctx, exec.Command(program, "-serve", addr), addr)
	if err != nil {
		return err
	}
	b.w.atEnd(p.stop)
	b.limit = p
	return nil
}

const (
	trueProgram = "/bin/true"
	limitHealth = "/v1/health" // of the limit program
)

// execTrue measures in blocks, so that ours and the peers share the minute.
func (b *bench) execTrue(ctx context.Context, r *round) error {
	var ours, spawns, trips []float64
	block := max(1, b.w.size.calls/4)
	others, err := r.span(func() error {
		for range 4 {
			err := r.inTurns(func() (err error) {
				ours, err = b.execBlock(ctx, r.number, ours, block)
				return err
			}, func() (err error) {
				for range block {
					if spawns, err = timed(spawns, spawnTrue); err != nil {
						return err
					}
					if trips, err = timed(trips, func() error { return b.roundTrip(ctx) }); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p50, p99 := percentile(ours, 0.5)*1e3, percentile(ours, 0.99)*1e3
	r.add(trueName, p50, (percentile(spawns, 0.5)+percentile(trips, 0.5))*1e3, others)
	r.add(trueTailName, p99, p50, others)
	limits, othersThen, err := b.limitExec(ctx, r)
	r.add(trueLimitName, p50, limits*1e3, max(others, othersThen))
	return err
}

func (b *bench) execBlock(ctx context.Context, round int, spans []float64, n int) ([]float64, error) {
	for range n {
		id := fmt.Sprintf("true-%d-%d", round, len(spans))
		t := time.Now()
		end, err := b.daemon.exec(ctx, id, trueProgram)
		spans = append(spans, time.Since(t).Seconds())
		if err != nil {
			return spans, err
		}
		if end.exitCode == nil || *end.exitCode != 0 {
			return spans, fmt.Errorf("true did not exit with 0: %v", end.exitCode)
		}
		if err := b.daemon.ack(ctx, id); err != nil {
			return spans, err
		}
	}
	return spans, nil
}

func spawnTrue() error {
	code, err := spawnWithPipes(trueProgram)
	if err == nil && code != 0 {
		err = fmt.Errorf("true exited with %d", code)
	}
	return err
}

func (b *bench) roundTrip(ctx context.Context) error {
	_, err := get(ctx, b.http, "http://"+b.peer.addr+peerHealth)
	return err
}

// limitExec returns the seconds of one spawn by the limit program and one round
// trip to the other, 0 when there are none.
func (b *bench) limitExec(ctx context.Context, r *round) (seconds, others float64, err error) {
	seconds, others, err = b.limitP50(ctx, r, "daemon/exec", "os/exec Setsid, 2 os.Pipe, own readers")
	if err != nil || seconds == 0 {
		return 0, 0, err
	}
	var trips []float64
	othersThen, err := r.span(func() (err error) {
		trips, err = b.getBlock(ctx, b.http, b.limit.addr, limitHealth, nil, 4*b.w.size.calls)
		return err
	})
	return seconds + percentile(trips, 0.5), max(others, othersThen), err
}

// limitP50 runs a limit program and returns one of its medians, 0 when no
// folder of peers was named.
func (b *bench) limitP50(ctx context.Context, r *round, name, line string) (seconds, others float64, err error) {
	program, err := b.w.limit(ctx, name)
	if errors.Is(err, errNoPeer) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	var got ran
	if others, err = r.span(func() (err error) {
		got, err = call(ctx, program)
		return err
	}); err != nil {
		return 0, 0, err
	}
	seconds, err = limitMedian(got.out, line)
	return seconds, others, err
}

// limitMedian finds p50 in a line of a limit program.
func limitMedian(out, line string) (float64, error) {
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + `\s.*\bp50=(\S+)`).FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("cannot find the p50 of %q in what the limit program printed: %q", line, out)
	}
	d, err := time.ParseDuration(m[1])
	return d.Seconds(), err
}

func (b *bench) health(ctx context.Context, r *round) error {
	var ours, bare, limit []float64
	block := max(1, 2*b.w.size.calls)
	others, err := r.span(func() error {
		for range 4 {
			err := r.inTurns(func() (err error) {
				ours, err = b.getBlock(ctx, b.daemon.http, b.daemon.addr, "/v1/health", ours, block)
				return err
			}, func() (err error) {
				bare, err = b.getBlock(ctx, b.http, b.peer.addr, peerHealth, bare, block)
				if err == nil && b.limit != nil {
					limit, err = b.getBlock(ctx, b.http, b.limit.addr, limitHealth, limit, block)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	p50, p99 := percentile(ours, 0.5)*1e6, percentile(ours, 0.99)*1e6
	r.add(healthName, p50, percentile(bare, 0.5)*1e6, others)
	r.add(healthTailName, p99, p50, others)
	limitP50 := 0.0
	if len(limit) > 0 {
		limitP50 = percentile(limit, 0.5) * 1e6
	}
	r.add(healthLimit, p50, limitP50, others)
	return nil
}

func (b *bench) getBlock(ctx context.Context, c *http.Client, addr, path string, spans []float64, n int) ([]float64, error) {
	var err error
	for range n {
		if spans, err = timed(spans, func() error { _, err := get(ctx, c, "http://"+addr+path); return err }); err != nil {
			return spans, err
		}
	}
	return spans, nil
}
