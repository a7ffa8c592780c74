// Package hostile is the catalogue of hostile inputs that a daemon of wire
// version 1 must survive (hostile input facts, parts HTTP and Exec), played from
// outside against a daemon that runs.
//
// A row survives when each of its inputs gets the stated answer, health still
// answers, a good request works, and nothing is left behind: no descriptor, no
// child, no connection slot, and no memory above the ceiling. Where the hostile
// input facts and the wire facts differ, the wire facts are expected.
//
// The package imports nothing of the daemon but its wire types, so it judges
// any daemon. Rows that need a clock that can be moved are in its tests.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Target is a running daemon on which Token is installed.
type Target struct {
	URL   string // "http://127.0.0.1:41237"
	Token string
	// PID is the daemon's process, 0 where it is not known or on another
	// machine: what is left behind is then not looked at, and Result says so.
	PID int
	// Log returns what the daemon has logged so far; nil: its log is not looked
	// at. The slice is the caller's to keep.
	Log   func() []byte
	Knobs Knobs
	// Identity is what the daemon was launched with; nil: verified tunnels are
	// not played.
	Identity *Identity
}

// Knobs are what the daemon was configured with and how much is asked of it. A
// zero field is the default of wire facts, section 3.
type Knobs struct {
	Connections int           // admitted at once; 128
	HeadBytes   int64         // kept of each stream for polls; 8388608
	RingBytes   int64         // kept of both for streams; 1048576
	Longest     time.Duration // the longest of the daemon's own deadlines, such as the kill grace; 10 s

	Volume  int64         // bytes of one flood of output; 10 GiB
	Turns   int           // readers that come and go; 10000
	Ceiling int64         // resident bytes that a row may add; 128 MiB
	Settle  time.Duration // until nothing may be left of a row; 10 s
	Limit   time.Duration // of one case, beside Longest and the time that Volume takes; 60 s

	// Mounts of the guest that rows may use; empty: cases that need them are not played.
	SmallDisk string // a folder on a filesystem that may be filled, some times the disk reserve in size
	ReadOnly  string // a folder on a read-only filesystem
}

func (k Knobs) withDefaults() Knobs {
	orInt(&k.Connections, 128)
	orInt(&k.HeadBytes, 8388608)
	orInt(&k.RingBytes, 1048576)
	orInt(&k.Longest, 10*time.Second)
	orInt(&k.Volume, 10<<30)
	orInt(&k.Turns, 10000)
	orInt(&k.Ceiling, 128<<20)
	orInt(&k.Settle, 10*time.Second)
	orInt(&k.Limit, 60*time.Second)
	return k
}

// slowestFlood is the least that a daemon must take of a flood in a second.
const slowestFlood = 64 << 20

// limit bounds one case: what has not happened by then never will.
func (k Knobs) limit() time.Duration {
	return k.Limit + k.Longest + time.Duration(k.Volume/slowestFlood)*time.Second
}

func orInt[T int | int64 | time.Duration](field *T, otherwise T) {
	if *field == 0 {
		*field = otherwise
	}
}

// Row is one line of the catalogue.
type Row struct {
	ID           string   // "H1": stable
	Name         string   // the input, in a few words
	Expect       string   // the answer, in a few words
	Requirements []string // that the row is evidence for
	Together     bool     // its cases mostly wait and are played at once
	Cases        []Case
}

// Case is one input with its expected answer.
type Case struct {
	Name string
	// Input makes the bytes that are sent on a fresh connection; Want is the
	// expected answer to them.
	Input func(*probe) string
	Want  want
	// Do plays what is more than one request and one answer, instead of Input.
	Do func(context.Context, *probe) error
}

// Result is what became of a row.
type Result struct {
	ID, Name string
	Cases    int       // played to their end, failed ones included
	Failures []string  // "case: what was wrong", and what was left behind
	Skipped  []Skipped // cases that this machine cannot play
	Unseen   []string  // checks that could not look
	Notes    []string  // measurements, no judgement
	Seconds  float64
}

// Skipped is a case that was not played.
type Skipped struct{ Case, Reason string }

// Failed reports whether the daemon did not survive the row. A row of which no
// case was played has failed too: it looked at nothing.
func (r *Result) Failed() bool { return len(r.Failures) > 0 || r.Cases == 0 }

// String returns the row and its faults.
func (r *Result) String() string {
	if !r.Failed() {
		return fmt.Sprintf("%s survived (%d cases, %.1f s)", r.ID, r.Cases, r.Seconds)
	}
	if r.Cases == 0 && len(r.Failures) == 0 {
		return r.ID + " looked at nothing"
	}
	return fmt.Sprintf("%s %s:\n  %s", r.ID, r.Name, strings.Join(r.Failures, "\n  "))
}

// skipped is returned by a case that this machine or daemon cannot play.
type skipped string

func (s skipped) Error() string { return string(s) }

// Run plays one row. It returns when every process and connection that it made
// has ended, or was given up on and reported. Rows of one daemon must not
// overlap: what one holds would count as the other's leak.
func Run(ctx context.Context, target Target, row Row) (res Result) {
	began := time.Now()
	target.Knobs = target.Knobs.withDefaults()
	res = Result{ID: row.ID, Name: row.Name}
	defer func() { res.Seconds = time.Since(began).Seconds() }()
	p := newProbe(target, row.ID)
	if err := p.alive(ctx); err != nil {
		res.Failures = append(res.Failures, fmt.Sprintf("before the row: %v", err))
		return res
	}
	watch := startWatch(ctx, p)
	play(ctx, p, row, &res)
	p.cleanUp(ctx)
	if err := p.alive(ctx); err != nil {
		res.Failures = append(res.Failures, fmt.Sprintf("after the row: %v", err))
		return res // nothing else can be asked of it
	}
	faults, unseen := watch.judge(ctx, p)
	res.Failures = append(res.Failures, faults...)
	res.Unseen = unseen
	res.Notes = p.notes
	return res
}

func play(ctx context.Context, p *probe, row Row, res *Result) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	one := func(c Case) {
		err := playCase(ctx, p, c)
		mu.Lock()
		defer mu.Unlock()
		var skip skipped
		switch {
		case errors.As(err, &skip):
			res.Skipped = append(res.Skipped, Skipped{c.Name, string(skip)})
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

func playCase(ctx context.Context, p *probe, c Case) error {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.limit())
	defer cancel()
	if c.Do != nil {
		return c.Do(ctx, p)
	}
	return p.exchange(ctx, c.Input(p), c.Want)
}
