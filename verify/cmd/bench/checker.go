package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The figures of the checker. Its own side are benchmarks of package model, each
// run in a process of its own, as the limit program is.

const bfsName = "bfsbench -v det, the same workers"

func twoPhaseName(hash string, workers int) string {
	return fmt.Sprintf("two-phase commit 9, %s fingerprint, %s", hash, plural(workers, "worker"))
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

const (
	hugeName     = "two-phase commit 9, custom fingerprint, 2 workers, to reach for"
	memoryName   = "two-phase commit 9, resident memory a distinct state"
	scalingName  = "scaling from 1 to 2 workers"
	allocsName   = "allocations a transition"
	orbitsName   = "symmetry, 10 managers, 3,300 orbits"
	livenessName = "liveness beside safety, the same graph"
)

func checkerExperiments(w *workshop) []experiment {
	c := &checker{w: w}
	twoPhase := experiment{name: "checker two-phase commit", setup: c.setup, round: c.twoPhase}
	for _, workers := range []int{1, 2} {
		twoPhase.figures = append(twoPhase.figures,
			figure{"checker", twoPhaseName("custom", workers), "M states/s", bfsName, atLeast(0.75)},
			figure{"checker", twoPhaseName("default", workers), "M states/s", bfsName, atLeast(0.6)})
	}
	twoPhase.figures = append(twoPhase.figures,
		figure{"checker", hugeName, "M states/s", "bfsbench -v hugepipe (not deterministic)", target{}},
		figure{"checker", memoryName, "B", "bfsbench -v det, 2 workers", atMost(1.25)},
		figure{"checker", scalingName, "×", "bfsbench -v det", atLeast(0.95)},
		figure{"checker", allocsName, "", "", alone("≤", 0.0005)}) // none, to three digits: growth is shared by all
	return []experiment{
		twoPhase,
		{name: "checker symmetry", setup: c.setup, round: c.symmetry, figures: []figure{{"checker", orbitsName, "ms", "", alone("≤", 50)}}},
		{name: "checker liveness", setup: c.setup, round: c.liveness, figures: []figure{
			{"checker", livenessName, "s", "the safety run", atMost(2)}}},
	}
}

type checker struct{ w *workshop }

// setup builds, so that no round does.
func (c *checker) setup(ctx context.Context) error {
	if _, err := c.w.tests(ctx, "model"); err != nil {
		return err
	}
	if _, err := c.w.limit(ctx, "bfsbench"); err != nil && !errors.Is(err, errNoPeer) {
		return err
	}
	return nil
}

// search is what one search found out about itself.
type search struct{ rate, bytes, allocs float64 }

func (c *checker) twoPhase(ctx context.Context, r *round) error {
	var ours, peers [3]search // by workers
	var others [3]float64
	for _, workers := range []int{1, 2} {
		var byDefault search
		var huge float64
		var err error
		others[workers], err = r.span(func() error {
			return r.inTurns(func() (err error) {
				if ours[workers], err = c.benchmark(ctx, "custom", workers); err != nil {
					return err
				}
				byDefault, err = c.benchmark(ctx, "default", workers)
				return err
			}, func() (err error) {
				if peers[workers], err = c.bfsbench(ctx, "det", workers); err == nil && workers == 2 {
					var s search
					s, err = c.bfsbench(ctx, "hugepipe", workers)
					huge = s.rate
				}
				return err
			})
		})
		if err != nil {
			return err
		}
		r.add(twoPhaseName("custom", workers), ours[workers].rate, peers[workers].rate, others[workers])
		r.add(twoPhaseName("default", workers), byDefault.rate, peers[workers].rate, others[workers])
		if workers == 2 {
			r.add(hugeName, ours[2].rate, huge, others[2])
		}
	}
	r.add(memoryName, ours[2].bytes, peers[2].bytes, untimed)
	r.add(allocsName, max(ours[1].allocs, ours[2].allocs), 0, untimed)
	peer := 0.0
	if peers[1].rate != 0 {
		peer = peers[2].rate / peers[1].rate
	}
	r.add(scalingName, ours[2].rate/ours[1].rate, peer, max(others[1], others[2]))
	return nil
}

// What the search of nine managers comes to; the benchmark fails on other counts.
const (
	twoPhaseManagers = "9"
	twoPhaseStates   = 123558402 // generated, one by one transition
	twoPhaseDistinct = 10340352
)

func (c *checker) benchmark(ctx context.Context, hash string, workers int) (search, error) {
	m, used, err := c.run(ctx, "model", fmt.Sprintf("BenchmarkTwoPhaseCommit9/fingerprint=%s/workers=%d", hash, workers), 1)
	if err != nil {
		return search{}, err
	}
	return search{rate: m["Mstates/s"], bytes: float64(used.maxRSS) / twoPhaseDistinct, allocs: m["allocs/op"] / twoPhaseStates}, nil
}

// bfsbench returns zeros when no folder of peers was named.
func (c *checker) bfsbench(ctx context.Context, variant string, workers int) (search, error) {
	program, err := c.w.limit(ctx, "bfsbench")
	if errors.Is(err, errNoPeer) {
		return search{}, nil
	}
	if err != nil {
		return search{}, err
	}
	used, err := call(ctx, program, "-n", twoPhaseManagers, "-v", variant, "-w", strconv.Itoa(workers))
	if err != nil {
		return search{}, err
	}
	rate, err := bfsbenchRate(used.out)
	return search{rate: rate, bytes: float64(used.maxRSS) / twoPhaseDistinct}, err
}

var bfsbenchLine = regexp.MustCompile(`\bgen/s=([0-9.]+)M\b`)

// bfsbenchRate finds the generated states a second, in millions.
func bfsbenchRate(out string) (float64, error) {
	m := bfsbenchLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("cannot find gen/s in what bfsbench printed: %q", out)
	}
	return strconv.ParseFloat(m[1], 64)
}

func (c *checker) symmetry(ctx context.Context, r *round) error {
	var m metrics
	others, err := r.span(func() (err error) {
		m, _, err = c.run(ctx, "model", "BenchmarkSymmetry", 20)
		return err
	})
	if err == nil {
		r.add(orbitsName, m["ns/op"]/1e6, 0, others)
	}
	return err
}

func (c *checker) liveness(ctx context.Context, r *round) error {
	var live, safe metrics
	others, err := r.span(func() error {
		return r.inTurns(func() (err error) {
			live, _, err = c.run(ctx, "model", "BenchmarkLiveness/live=true/workers=2", 1)
			return err
		}, func() (err error) {
			safe, _, err = c.run(ctx, "model", "BenchmarkLiveness/live=false/workers=2", 1)
			return err
		})
	})
	if err == nil {
		r.add(livenessName, live["ns/op"]/1e9, safe["ns/op"]/1e9, others)
	}
	return err
}

// run runs one benchmark of a package and returns its metrics.
func (c *checker) run(ctx context.Context, pkg, name string, times int) (metrics, ran, error) {
	program, err := c.w.tests(ctx, pkg)
	if err != nil {
		return nil, ran{}, err
	}
	var exact []string
	for part := range strings.SplitSeq(name, "/") {
		exact = append(exact, "^"+part+"$")
	}
	used, err := call(ctx, program, "-test.run=^$", "-test.bench="+strings.Join(exact, "/"), "-test.benchtime="+strconv.Itoa(times)+"x")
	if err != nil {
		return nil, ran{}, err
	}
	m, err := benchmarkMetrics(used.out, name)
	return m, used, err
}

// metrics are the values of one benchmark by unit.
type metrics map[string]float64

// benchmarkMetrics reads the line of one benchmark in Go's benchmark format:
// name, iterations, then pairs of value and unit.
func benchmarkMetrics(out, name string) (metrics, error) {
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || cpuSuffix.ReplaceAllString(fields[0], "") != name {
			continue
		}
		m := metrics{}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, fmt.Errorf("cannot read the benchmark line %q: %w", strings.TrimSpace(line), err)
			}
			m[fields[i+1]] = v
		}
		return m, nil
	}
	return nil, fmt.Errorf("benchmark %s did not run; it printed %q", name, out)
}

// cpuSuffix is what go test appends when more than one processor is used.
var cpuSuffix = regexp.MustCompile(`-\d+$`)
