package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"microvms/conformance/histories"
)

// Config says what to run.
type Config struct {
	Histories int    // how many
	Seed      uint64 // of the first; each next one counts up, so one history can be run again
	Workers   int    // histories recorded at once
	Start     Starter
	FailDir   string // where failing histories are saved
}

// samplesKept is how many histories of a run are kept for drawing.
const samplesKept = 2

// records records histories and gives one to each as it is done, from many goroutines. Its error is
// about running at all, or what each returned.
func (c Config) records(ctx context.Context, each func(*History) error) error {
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next atomic.Uint64
		bad  error
	)
	for range c.Workers {
		wg.Go(func() {
			for {
				n := next.Add(1) - 1
				if n >= uint64(c.Histories) || ctx.Err() != nil {
					return
				}
				seed := c.Seed + n
				h, err := record(ctx, planned(seed), c.Start, fmt.Sprintf("manager-%d", seed), seed)
				if err == nil {
					err = each(h)
				}
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
	return errors.Join(bad, ctx.Err())
}

// Drive records and judges histories. What the manager does wrong is in the
// result; the error is about running at all.
func Drive(ctx context.Context, c Config) (*histories.Result, error) {
	begin := time.Now()
	r := &histories.Result{Name: "manager", Requirements: map[string]int64{}, Failures: []string{}}
	var mu sync.Mutex
	err := c.records(ctx, func(h *History) error {
		v, text := Judge(h)
		mu.Lock()
		defer mu.Unlock()
		return c.keep(r, h, v, text)
	})
	r.Seconds = time.Since(begin).Seconds()
	return r, err
}

// keep enters a judged history into the result and saves it if it failed.
func (c Config) keep(r *histories.Result, h *History, v histories.Verdict, text string) error {
	for i := range h.Operations {
		if o := &h.Operations[i]; !o.Known() {
			r.Open++
		}
	}
	r.Count(h.sample(v), samplesKept)
	if v == histories.Linearizable {
		h.claims(r.Requirements)
		return nil
	}
	path, err := h.save(c.FailDir)
	if v == histories.NotLinearizable {
		r.Failures = append(r.Failures, fmt.Sprintf("%s (seed %d): %s; saved as %s", h.Name, h.Seed, text, path))
	}
	return err
}

// sample is the history for drawing.
func (h *History) sample(v histories.Verdict) histories.Sample {
	s := histories.Sample{Name: h.Name, Verdict: v}
	for i := range h.Operations {
		o := &h.Operations[i]
		d := histories.Drawn{Client: o.Client + 1, Label: o.Label(), Call: o.Call / 1000, Return: o.Return / 1000}
		if o.Return < 0 {
			d.Return = -1
		}
		s.Operations = append(s.Operations, d)
	}
	return s
}
