package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"microvms/agentd/trace"
)

// The table behaves as the reference does, step by step: each run's goroutine
// waits at every transition until the test lets it go on, and after each step
// the phases, the permits, what each connection heard and where each goroutine
// waits are as the reference says. Processes are real.
func TestTableFollowsTheReference(t *testing.T) {
	for _, id := range []string{"MGR-3", "MGR-4", "MGR-6", "MGR-9", "MGR-10", "MGR-13", "MGR-16", "MGR-17", "MGR-20", "MGR-28"} {
		t.Attr("requirement", id)
	}
	var took int
	rapid.Check(t, func(r *rapid.T) {
		p := newPlay(t, r)
		defer p.end()
		steps := rapid.IntRange(1, 40).Draw(r, "steps")
		for range steps {
			p.step()
			p.agree()
			took++
		}
	})
	if took == 0 {
		t.Error("no step was taken")
	}
}

// play is one walk of the table beside the reference.
type play struct {
	t        testing.TB
	r        *rapid.T
	w        *world
	ref      *reference
	conns    []*conn
	children []*child // by id - 1
}

func newPlay(t testing.TB, r *rapid.T) *play {
	total := rapid.IntRange(1, 3).Draw(r, "permits")
	p := &play{t: t, r: r, ref: &reference{total: total, retention: 7 * time.Minute}}
	p.w = bareWorld(t, Config{Permits: total, Retention: 7 * time.Minute},
		trace.RunReject, trace.RunGrant, trace.RunSpawn, trace.RunSpawnFail, trace.RunAbort, trace.RunExit, trace.RunFinish)
	for range 2 {
		p.connect()
	}
	return p
}

func (p *play) connect() {
	p.conns = append(p.conns, newConn())
	p.ref.conns = append(p.ref.conns, &refConn{sees: map[int]string{}})
}

// conn draws one of the two connections that are up.
func (p *play) conn() int {
	return len(p.conns) - rapid.IntRange(1, 2).Draw(p.r, "connection")
}

// run draws a run that was ever accepted; nil: there is none.
func (p *play) run(of func(*refRun) bool) *refRun {
	var all []*refRun
	for _, r := range p.ref.runs {
		if of(r) {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return rapid.SampledFrom(all).Draw(p.r, "run")
}

func (p *play) step() {
	any := func(*refRun) bool { return true }
	live := func(r *refRun) bool { return r.known() && !r.over() }
	running := func(r *refRun) bool { return r.phase == "running" && r.told < 0 && r.cause == "" }
	// A grant that is not due any more would be looked at and left alone, at a
	// moment that nobody can see: TestGrantIsLookedAtAgain does that.
	waits := func(r *refRun) bool {
		return r.stands != "" && (r.stands != trace.RunGrant || p.ref.next(r))
	}
	weights := []string{"request", "request", "request", "go on", "go on", "go on", "go on", "exit", "exit",
		"cancel", "cancel", "ack", "attach", "attach", "read", "disconnect", "permits", "minute"}
	switch rapid.SampledFrom(weights).Draw(p.r, "action") {
	case "request":
		p.request()
	case "go on":
		if r := p.run(waits); r != nil {
			p.w.gate.release(p.t, r.stands, ID(r.id))
			p.ref.goOn(r)
		}
	case "exit":
		if r := p.run(running); r != nil {
			r.told = rapid.IntRange(0, 3).Draw(p.r, "code")
			p.children[r.id-1].obey(p.t, fmt.Sprint("exit ", r.told))
		}
	case "cancel":
		if r := p.run(live); r != nil {
			p.judge(p.w.cancel(ID(r.id)), nil)
			p.ref.stop(r, "cancelled")
		} else if r := p.run(any); r != nil {
			p.judge(p.w.cancel(ID(r.id)), unknownUnless(r.known()))
		}
	case "ack":
		p.ack(p.run(any))
	case "attach":
		if r := p.run(any); r != nil {
			c := p.conn()
			err := p.w.attach(p.conns[c], ID(r.id))
			p.judge(err, unknownUnless(p.ref.attach(c, r)))
		}
	case "read":
		if r := p.run(any); r != nil {
			_, err := p.w.read(ID(r.id), GenvmLog)
			p.judge(err, unknownUnless(r.phase == "finished"))
		}
	case "disconnect":
		c := p.conn()
		p.w.table.Disconnect(context.Background(), p.conns[c])
		last := len(p.conns) - 1
		p.conns[c], p.conns[last] = p.conns[last], p.conns[c]
		p.ref.conns[c], p.ref.conns[last] = p.ref.conns[last], p.ref.conns[c]
		p.ref.conns[last].sees = map[int]string{}
		p.connect()
		// The one that is up stays among the last two.
		p.conns[last], p.conns[last-1] = p.conns[last-1], p.conns[last]
		p.ref.conns[last], p.ref.conns[last-1] = p.ref.conns[last-1], p.ref.conns[last]
	case "permits":
		p.ref.total = rapid.IntRange(1, 4).Draw(p.r, "total")
		p.judge(p.w.table.SetPermits(context.Background(), p.ref.total), nil)
	case "minute":
		p.ref.advance(time.Minute)
		p.w.clock.advance(time.Minute)
	}
	p.ref.settle()
}

func (p *play) request() {
	c, ch := p.conn(), newChild(p.t)
	o := order{
		token:   rapid.SampledFrom([]string{"", "", "t", "u"}).Draw(p.r, "token"),
		permits: rapid.IntRange(1, 3).Draw(p.r, "cost"), child: ch,
		deadline: time.Duration(rapid.IntRange(1, 9).Draw(p.r, "deadline")) * time.Minute,
	}
	k := rapid.SampledFrom([]kind{plain, plain, plain, plain, invalid, broken}).Draw(p.r, "kind")
	switch k {
	case invalid:
		o.refuse = errRefused
	case broken:
		ch.path = "/nonexistent"
	}
	p.ref.request(c, o.token, k, o.permits, o.deadline)
	p.w.run(p.conns[c], o)
	if len(p.ref.runs) > len(p.children) {
		p.children = append(p.children, ch)
	} else {
		ch.abandon()
	}
}

func (p *play) ack(r *refRun) {
	if r == nil {
		return
	}
	err := p.w.ack(ID(r.id))
	switch {
	case r.over():
		p.judge(err, nil)
		p.ref.release(r)
	case r.known():
		p.judge(err, ErrNotFinished)
	default:
		p.judge(err, ErrUnknown)
	}
}

func unknownUnless(known bool) error {
	if known {
		return nil
	}
	return ErrUnknown
}

func (p *play) judge(got, want error) {
	p.r.Helper()
	if got != want {
		p.r.Fatalf("answered %v, want %v", got, want)
	}
}

// agree waits until the table is as the reference says.
func (p *play) agree() {
	p.r.Helper()
	late := time.After(10 * time.Second)
	for {
		gate, recorded := p.w.gate.signal(), p.w.rec.signal()
		got, want := p.table(), p.wanted()
		if got == want {
			return
		}
		select {
		case <-gate:
		case <-recorded:
		case <-late:
			p.r.Fatalf("the table is\n%s\nthe reference\n%s", got, want)
		}
	}
}

// table prints what the table shows.
func (p *play) table() string {
	var b strings.Builder
	for _, s := range p.w.table.Status() {
		fmt.Fprintf(&b, "run %d %s holds %d\n", s.ID, s.Phase, s.Permits)
	}
	total, free := p.w.table.Permits()
	fmt.Fprintf(&b, "permits %d, %d free\n", total, free)
	for i, c := range p.conns {
		fmt.Fprintf(&b, "connection %d: %s\n", i, strings.Join(c.heard(), ", "))
	}
	b.WriteString("waiting: " + strings.Join(p.w.gate.standing(), ", "))
	return b.String()
}

// wanted prints the same of the reference.
func (p *play) wanted() string {
	var b strings.Builder
	words := map[string]string{"draining": "running", "failed": "failed_to_start"}
	var standing []string
	for _, r := range p.ref.runs {
		if r.stands != "" {
			standing = append(standing, fmt.Sprint(r.stands, " ", r.id))
		}
		if !r.known() {
			continue
		}
		phase := r.phase
		if w := words[phase]; w != "" {
			phase = w
		}
		fmt.Fprintf(&b, "run %d %s holds %d\n", r.id, phase, r.held)
	}
	fmt.Fprintf(&b, "permits %d, %d free\n", p.ref.total, max(p.ref.free(), 0))
	for i, c := range p.ref.conns {
		fmt.Fprintf(&b, "connection %d: %s\n", i, strings.Join(c.heard, ", "))
	}
	slices.Sort(standing)
	b.WriteString("waiting: " + strings.Join(standing, ", "))
	return b.String()
}

// end shuts the table down and looks at what must hold then.
func (p *play) end() {
	p.w.end()
	for i, ch := range p.children {
		spawned, closed := ch.used()
		if closed > 1 || len(spawned) != closed {
			p.r.Errorf("run %d was prepared once, told of its spawn %v and closed %d times", i+1, spawned, closed)
		}
		ch.abandon()
	}
	if total, free := p.w.table.Permits(); total != free {
		p.r.Errorf("%d of %d permits are free", free, total)
	}
}
