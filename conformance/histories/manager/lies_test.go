package manager

import (
	"cmp"
	"slices"
	"sync"
	"testing"

	"microvms/conformance/histories"
)

// lie changes the history at its n-th arrival, counted over all connections, or
// at its n-th operation, into what a manager with a mistake would have shown. It
// reports false where there is nothing to change.
type lie func(h *History, n int) bool

// lies are the changes, and how many of them at least must be tried. A change at
// each place that a lie takes must be found.
var lies = map[string]struct {
	lie   lie
	least int
}{
	"a doubled ending": {onArrival(func(h *History, c *Conn, i int) bool {
		if e := c.Arrivals[i].Event; e == nil || !e.Ended() {
			return false
		}
		c.Arrivals = slices.Insert(c.Arrivals, i+1, c.Arrivals[i])
		return true
	}), 15},
	"a lost ending": {onArrival(func(h *History, c *Conn, i int) bool {
		e := c.Arrivals[i].Event
		if e == nil || !e.Ended() || c.Ending != Stayed && c.Ending != Closed || shown(h, c, e.Run) {
			return false
		}
		c.Arrivals = slices.Delete(c.Arrivals, i, i+1)
		return true
	}), 15},
	"an event ahead of the reply": {onArrival(func(h *History, c *Conn, i int) bool {
		e := c.Arrivals[i].Event
		first := slices.IndexFunc(c.Arrivals, func(a Arrival) bool { return names(h, a) == nameOf(e) })
		if e == nil || first < 0 || first > i {
			return false
		}
		a := c.Arrivals[i]
		c.Arrivals = slices.Insert(slices.Delete(c.Arrivals, i, i+1), first, a)
		return true
	}), 15},
	"two replies that change places": {onArrival(func(h *History, c *Conn, i int) bool {
		if i == 0 || !answers(h, c.Arrivals[i]) || !answers(h, c.Arrivals[i-1]) || c.Arrivals[i-1].Op > c.Arrivals[i].Op {
			return false
		}
		if page(h, c.Arrivals[i-1]) && !page(h, c.Arrivals[i]) {
			return false // a page may come late
		}
		c.Arrivals[i], c.Arrivals[i-1] = c.Arrivals[i-1], c.Arrivals[i]
		return true
	}), 15},
	"an ack that two got": {onOperation(func(h *History, o *Operation) bool {
		other := func(p Operation) bool {
			return p.Kind == Ack && p.Run == o.Run && p.Known() && p.Answer.Code == "" && same(h, o, &p)
		}
		if o.Kind != Ack || !o.Known() || o.Answer.Code != unknownID || !slices.ContainsFunc(h.Operations, other) {
			return false
		}
		o.Answer.Code = ""
		return true
	}), 15},
	"a read after release": {onOperation(func(h *History, o *Operation) bool {
		before := func(p Operation) bool {
			return p.Kind == Ack && p.Run == o.Run && p.Known() && p.Answer.Code == "" && same(h, o, &p) && p.Return < o.Call
		}
		if o.Kind != Attach || !o.Known() || o.Answer.Code != unknownID || !slices.ContainsFunc(h.Operations, before) {
			return false
		}
		*o.Answer = Answer{Total: 1, Data: "x"}
		o.Kind, o.Field, o.Max = Read, "stdout", 1
		return true
	}), 15},
	"a second id for a live token": {onOperation(func(h *History, o *Operation) bool {
		acked := func(p Operation) bool {
			return p.Kind == Ack && same(h, o, &p) && p.Run == o.Answer.Run && p.Call < until(o) && (!p.Known() || p.Answer.Code == "")
		}
		if o.Kind != Run || o.Bare || !o.Known() || o.Answer.Run == 0 || slices.ContainsFunc(h.Operations, acked) {
			return false
		}
		repeats := func(p Operation) bool {
			return p.Kind == Run && p.Known() && same(h, o, &p) && p.Answer.Run == o.Answer.Run && p.Return < o.Call
		}
		if !slices.ContainsFunc(h.Operations, repeats) {
			return false
		}
		o.Answer.Run = 1 + slices.MaxFunc(h.Operations, func(p, q Operation) int { return cmp.Compare(given(h, o, &p), given(h, o, &q)) }).Answer.Run
		return true
	}), 15},
}

// onArrival makes a lie about the n-th arrival.
func onArrival(change func(h *History, c *Conn, i int) bool) lie {
	return func(h *History, n int) bool {
		for k := range h.Conns {
			c := &h.Conns[k]
			if n < len(c.Arrivals) {
				return change(h, c, n)
			}
			n -= len(c.Arrivals)
		}
		return false
	}
}

// onOperation makes a lie about the n-th operation.
func onOperation(change func(h *History, o *Operation) bool) lie {
	return func(h *History, n int) bool { return n < len(h.Operations) && change(h, &h.Operations[n]) }
}

// same reports whether two operations were sent to one boot.
func same(h *History, o, p *Operation) bool { return h.boot(o) == h.boot(p) }

// given is the id that a run request of the boot of o was answered with, 0 if none.
func given(h *History, o, p *Operation) uint64 {
	if p.Kind != Run || !p.Known() || !same(h, o, p) {
		return 0
	}
	return p.Answer.Run
}

// shown reports whether a connection saw the ending of a run as a snapshot.
func shown(h *History, c *Conn, run uint64) bool {
	return slices.ContainsFunc(c.Arrivals, func(a Arrival) bool {
		if !answers(h, a) {
			return false
		}
		t := h.Operations[a.Op].Answer.Snapshot
		return t != nil && t.Run == run && t.Ended()
	})
}

// answers reports whether an arrival is a reply that was looked at.
func answers(h *History, a Arrival) bool { return a.Op >= 0 && h.Operations[a.Op].Known() }

// page reports whether an arrival is a page of an artifact.
func page(h *History, a Arrival) bool {
	o := &h.Operations[a.Op]
	return o.Kind == Read && o.Known() && o.Answer.Code == ""
}

// names is the run that a reply subscribes to; 0: it subscribes to none.
func names(h *History, a Arrival) uint64 {
	if !answers(h, a) {
		return 0
	}
	if t := h.Operations[a.Op].Answer.Snapshot; t != nil {
		return t.Run
	}
	return h.Operations[a.Op].Answer.Run
}

// nameOf is the run of an event.
func nameOf(t *Told) uint64 {
	if t == nil {
		return neverGiven
	}
	return t.Run
}

// TestLiesAboutRealHistoriesAreFound records histories of a real manager and
// changes one thing in each at a time.
func TestLiesAboutRealHistoriesAreFound(t *testing.T) {
	t.Attr("requirement", "VERIFY-11")
	var (
		mu    sync.Mutex
		tried = map[string]int{}
	)
	c := Config{Histories: 8, Seed: 5000, Workers: 2, Start: startBinary}
	err := c.records(t.Context(), func(h *History) error {
		for name, l := range lies {
			const most = 8 // of each history
			found := 0
			for n := 0; n < places(h) && found < most; n++ {
				again := clone(h)
				if !l.lie(again, n) {
					continue
				}
				found++
				if v, _ := Judge(again); v != histories.NotLinearizable {
					t.Errorf("%s: %s at place %d is judged %q", h.Name, name, n, v)
				}
			}
			mu.Lock()
			tried[name] += found
			mu.Unlock()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(tried)
	for name, l := range lies {
		if tried[name] < l.least {
			t.Errorf("%s was tried %d times, want at least %d", name, tried[name], l.least)
		}
	}
}

// clone copies what lies change.
func clone(h *History) *History {
	c := *h
	c.Conns, c.Operations = slices.Clone(h.Conns), slices.Clone(h.Operations)
	for i := range c.Conns {
		c.Conns[i].Arrivals = slices.Clone(c.Conns[i].Arrivals)
	}
	for i := range c.Operations {
		if a := c.Operations[i].Answer; a != nil {
			answer := *a
			c.Operations[i].Answer = &answer
		}
	}
	return &c
}

// arrivals counts them.
func arrivals(h *History) (n int) {
	for _, c := range h.Conns {
		n += len(c.Arrivals)
	}
	return n
}

// places is how many places there are for lies.
func places(h *History) int { return max(len(h.Operations), arrivals(h)) }
