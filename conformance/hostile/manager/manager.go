// Package manager is the catalogue of hostile inputs that a manager must survive
// (hostile input facts, rows W4, W5, W6 and W8, and what a careful attacker would
// add), played from outside against one that runs.
//
// A row survives when each of its inputs gets the stated answer, the status route
// answers, a good run works, and nothing is left behind: no run, no permit, no
// descriptor, no goroutine, no process, and no memory above the row's ceiling.
// Where the hostile input facts and the manager facts differ, the manager facts
// are expected: an oversized message is dropped without a close frame.
//
// The package imports nothing of the manager but its wire types, so it judges any
// manager of the protocol. Its executor is the demonstration executor (command
// conformance/cmd/executor), which must be installed under the name of
// [Executor].
package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"microvms/conformance/hostile"
)

// Executor is the name under which the demonstration executor is installed.
const Executor = "demo"

// Target is a manager that runs and that nobody else uses.
type Target struct {
	Network, Address string // "tcp", host and port; or "unix", a path
	// PID is the manager's process, 0 where it is not known: what is left behind
	// is then not looked at, and Result says so.
	PID int
	// Inside says that the manager is part of this process, whose goroutines are
	// then counted, and whose memory is not.
	Inside bool
	// Executors is the folder of executors, empty where it is not known. Processes
	// whose program lies there are counted.
	Executors string
	// Log returns what the manager has logged so far; nil: its log is not looked
	// at. The slice is the caller's to keep.
	Log   func() []byte
	Knobs Knobs
}

// Knobs are what the manager was configured with and how much is asked of it. A
// zero field is the default.
type Knobs struct {
	MaxMessage int64         // bytes of one message that the manager takes; 67108864
	Linger     time.Duration // the manager's wait for output after an executor's exit; 5 s

	LineBytes int64         // of a log line without an end; 1 GiB
	Lines     int           // of a log of short lines; 1000000
	Flood     int           // messages of one flood; 20000
	Turns     int           // connections that come and go; 10000
	Pages     int           // artifact pages asked for at once; 10000
	Prompt    time.Duration // most that a control reply may take beside bulk; 0: it is measured and not judged
	Settle    time.Duration // until nothing may be left of a row; 10 s
	Limit     time.Duration // of one case; 90 s
}

func (k Knobs) withDefaults() Knobs {
	orElse(&k.MaxMessage, 64<<20)
	orElse(&k.Linger, 5*time.Second)
	orElse(&k.LineBytes, 1<<30)
	orElse(&k.Lines, 1_000_000)
	orElse(&k.Flood, 20_000)
	orElse(&k.Turns, 10_000)
	orElse(&k.Pages, 10_000)
	orElse(&k.Settle, 10*time.Second)
	orElse(&k.Limit, 90*time.Second)
	return k
}

func orElse[T int | int64 | time.Duration](field *T, otherwise T) {
	if *field == 0 {
		*field = otherwise
	}
}

// Row is one line of the catalogue.
type Row struct {
	ID           string   // "W4": stable
	Name         string   // the input, in a few words
	Expect       string   // the answer, in a few words
	Requirements []string // that the row is evidence for
	Together     bool     // its cases mostly wait and are played at once
	// Waits says that the row waits for a deadline that the protocol fixes.
	Waits bool
	// Ceiling is how many resident bytes the row may add; nil: 128 MiB.
	Ceiling func(Knobs) int64
	Cases   []Case
}

// Case is one input with its expected answer.
type Case struct {
	Name string
	Do   func(context.Context, *probe) error
}

// Run plays one row and says what became of it. Rows of one manager must not
// overlap: what one holds would count as the other's leak.
func Run(ctx context.Context, target Target, row Row) (res hostile.Result) {
	began := time.Now()
	target.Knobs = target.Knobs.withDefaults()
	res = hostile.Result{ID: row.ID, Name: row.Name}
	defer func() { res.Seconds = time.Since(began).Seconds() }()
	p := newProbe(target)
	defer p.close()
	// The first good run also makes what is made once.
	if err := p.alive(ctx); err != nil {
		res.Failures = append(res.Failures, fmt.Sprintf("before the row: %v", err))
		return res
	}
	w := startWatch(ctx, p)
	play(ctx, p, row, &res)
	if err := p.release(ctx); err != nil {
		res.Failures = append(res.Failures, fmt.Sprintf("runs: %v", err))
	}
	if err := p.alive(ctx); err != nil {
		res.Failures = append(res.Failures, fmt.Sprintf("after the row: %v", err))
		return res // nothing else can be asked of it
	}
	faults, unseen := w.judge(ctx, p, row.ceiling(target.Knobs))
	res.Failures = append(res.Failures, faults...)
	res.Unseen, res.Notes = unseen, p.notes
	return res
}

// ceiling is the row's, or that of a row that moves little.
func (r Row) ceiling(k Knobs) int64 {
	if r.Ceiling == nil {
		return 128 << 20
	}
	return r.Ceiling(k)
}

func play(ctx context.Context, p *probe, row Row, res *hostile.Result) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	one := func(c Case) {
		ctx, cancel := context.WithTimeout(ctx, p.Knobs.Limit)
		defer cancel()
		err := c.Do(ctx, p)
		mu.Lock()
		defer mu.Unlock()
		var skip skipped
		switch {
		case errors.As(err, &skip):
			res.Skipped = append(res.Skipped, hostile.Skipped{Case: c.Name, Reason: string(skip)})
			return
		case err != nil:
			res.Failures = append(res.Failures, fmt.Sprintf("%s: %v", c.Name, err))
		}
		res.Cases++
	}
	for _, c := range row.Cases {
		if row.Together {
			wg.Go(func() { one(c) })
			continue
		}
		one(c)
	}
	wg.Wait()
}

// skipped is returned by a case that this machine or manager cannot play.
type skipped string

func (s skipped) Error() string { return string(s) }
