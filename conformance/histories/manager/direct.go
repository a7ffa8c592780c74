package manager

import (
	"fmt"
)

// watch looks at each connection by itself and at what all of them were told of
// one run.
type watch struct {
	h     *History
	runs  map[runKey]*runFacts
	over  map[*Operation]bool // run requests that must have found their run ended
	found string              // what is wrong; the first thing that was found
}

// runKey names a run: ids begin anew with each boot.
type runKey struct {
	boot int
	id   uint64
}

// runFacts is what must be one and the same wherever a run is spoken of.
type runFacts struct {
	owner   string // the token, or that there is none; "" while nothing says it
	bare    *Operation
	ending  *Told
	started bool // somebody was told so
}

// view is what one connection was told of one run.
type view struct {
	by       *Operation // the request that was answered first; nil: its reply was thrown away
	queued   bool       // it subscribed before the start
	started  bool
	ended    int // events
	snapshot bool
}

// watched looks at a history and returns what it needs for the search.
func watched(h *History) *watch {
	w := &watch{h: h, runs: map[runKey]*runFacts{}, over: map[*Operation]bool{}}
	w.boots()
	w.facts()
	for i := range h.Conns {
		w.replies(i)
		w.subscriber(i)
	}
	w.targets()
	w.identities()
	return w
}

func (w *watch) wrong(format string, args ...any) {
	if w.found == "" {
		w.found = fmt.Sprintf(format, args...)
	}
}

// boots holds every hello to one boot id for each process.
func (w *watch) boots() {
	seen := map[uint64]bool{}
	for _, id := range w.h.Boots {
		if seen[id] {
			w.wrong("two processes have one boot id")
		}
		seen[id] = true
	}
	for i, c := range w.h.Conns {
		if c.Hello != w.h.Boots[c.Boot] {
			w.wrong("connection %d was told another boot id than the others", i)
		}
		if c.Ending == Lost {
			w.wrong("the manager ended connection %d, and nobody had asked for it", i)
		}
	}
}

func (w *watch) run(boot int, id uint64) *runFacts {
	k := runKey{boot, id}
	if w.runs[k] == nil {
		w.runs[k] = &runFacts{}
	}
	return w.runs[k]
}

// facts collects what was said of each run and holds it together.
func (w *watch) facts() {
	for i := range w.h.Operations {
		o := &w.h.Operations[i]
		if !o.Known() || o.Answer.Code != "" {
			continue
		}
		boot := w.h.boot(o)
		if o.Kind == Run {
			f := w.run(boot, o.Answer.Run)
			if o.Bare && f.bare != nil {
				w.wrong("run %d was given to two requests without a token", o.Answer.Run)
			}
			if o.Bare {
				f.bare = o
			}
			w.owned(f, o.Answer.Run, o.owner())
		}
		if t := o.Answer.Snapshot; t != nil {
			w.said(boot, t)
			if t.Run != o.Run {
				w.wrong("%s was answered with run %d", o.Label(), t.Run)
			}
		}
	}
	for _, c := range w.h.Conns {
		for _, a := range c.Arrivals {
			if a.Event != nil {
				w.said(c.Boot, a.Event)
			}
		}
	}
}

// bareOwner is the owner of a run without a token.
const bareOwner = "no token"

// owner is whom the run of a request belongs to.
func (o *Operation) owner() string {
	if o.Bare {
		return bareOwner
	}
	return "token " + o.Token
}

func (w *watch) owned(f *runFacts, id uint64, owner string) {
	if f.owner != "" && f.owner != owner {
		w.wrong("run %d is of %q and of %q", id, f.owner, owner)
	}
	f.owner = owner
}

// said enters an event or a snapshot.
func (w *watch) said(boot int, t *Told) {
	f := w.run(boot, t.Run)
	owner := bareOwner
	if t.Token != nil {
		owner = "token " + *t.Token
	}
	w.owned(f, t.Run, owner)
	f.started = f.started || t.Kind == started
	if !t.Ended() {
		return
	}
	if f.ending != nil && !f.ending.same(t) {
		w.wrong("run %d ended as %v and as %v", t.Run, f.ending, t)
	}
	f.ending = t
}

// same reports whether two endings are one.
func (t *Told) same(u *Told) bool {
	code := func(t *Told) int64 {
		if t.Code == nil {
			return -1
		}
		return *t.Code
	}
	return t.Kind == u.Kind && t.Cause == u.Cause && code(t) == code(u) && t.At == u.At && t.Stdout == u.Stdout
}

// replies holds the replies on one connection to the requests: one for each,
// and in their order. Pages have an order of their own, and no page comes ahead
// of what was to be said before.
func (w *watch) replies(conn int) {
	answered := map[int]bool{}
	control, page := -1, -1
	for _, a := range w.h.Conns[conn].Arrivals {
		if a.Stray != "" {
			w.wrong("on connection %d came %s", conn, a.Stray)
		}
		if a.Op < 0 {
			continue
		}
		o := &w.h.Operations[a.Op]
		if answered[a.Op] || o.Conn != conn {
			w.wrong("connection %d was sent a second reply to %s", conn, o.Label())
		}
		answered[a.Op] = true
		switch {
		case o.Kind == Read && o.Known() && o.Answer.Code == "":
			if a.Op < page {
				w.wrong("on connection %d, %s came behind a later page", conn, o.Label())
			}
			page = max(page, a.Op)
		case o.Known():
			if a.Op < max(control, page) {
				w.wrong("on connection %d, %s came behind the reply to a later request", conn, o.Label())
			}
			control = max(control, a.Op)
		}
	}
	for i := range w.h.Operations {
		if o := &w.h.Operations[i]; o.Conn == conn && o.Known() && o.Kind != Shutdown && !answered[i] {
			w.wrong("%s was answered, and no reply arrived", o.Label())
		}
	}
}

// subscriber holds what one connection was told of each run to what it had been
// told before, and at its end to the one ending that it must have.
func (w *watch) subscriber(conn int) {
	c := &w.h.Conns[conn]
	views := map[uint64]*view{}
	blind := false // a reply was thrown away: it may have subscribed to anything
	for _, a := range c.Arrivals {
		switch {
		case a.Op >= 0:
			o := &w.h.Operations[a.Op]
			blind = blind || !o.Known()
			w.subscribed(conn, views, o)
		case a.Event != nil:
			v := views[a.Event.Run]
			if v == nil && !blind {
				w.wrong("connection %d was told %v of run %d ahead of each reply that names it", conn, a.Event, a.Event.Run)
			}
			if v == nil {
				v = &view{}
				views[a.Event.Run] = v
			}
			w.event(conn, v, a.Event)
		}
	}
	for id, v := range views {
		// CutBefore and its like leave no subscriber. One that stayed must have heard.
		if (c.Ending == Stayed || c.Ending == Closed) && v.ended == 0 && !v.snapshot {
			w.wrong("connection %d was never told the end of run %d", conn, id)
		}
	}
}

// subscribed is a reply that subscribes.
func (w *watch) subscribed(conn int, views map[uint64]*view, o *Operation) {
	if !o.Known() || o.Answer.Code != "" {
		return
	}
	switch o.Kind {
	case Run:
		if views[o.Answer.Run] == nil {
			views[o.Answer.Run] = &view{by: o}
		}
	case Attach:
		t := o.Answer.Snapshot
		v := views[o.Run]
		if v == nil {
			v = &view{by: o, queued: t.Kind == queued}
			views[o.Run] = v
		}
		if v.started && t.Kind == queued || (v.ended > 0 || v.snapshot) && !t.Ended() {
			w.wrong("connection %d was shown %v of run %d, and knew more", conn, t, o.Run)
		}
		// A queued run that it hears of starts before its eyes.
		v.queued = v.queued || t.Kind == queued
		v.started = v.started || t.Kind == started
		v.snapshot = v.snapshot || t.Ended()
	}
}

// event is an event of a run.
func (w *watch) event(conn int, v *view, t *Told) {
	if t.Kind != started && !t.Ended() {
		w.wrong("connection %d was told %v, which is no event", conn, t)
		return
	}
	if v.ended > 0 || v.snapshot {
		w.wrong("connection %d was told %v of run %d behind its end", conn, t, t.Run)
	}
	if t.Kind == started {
		if v.started {
			w.wrong("connection %d was told twice that run %d started", conn, t.Run)
		}
		v.started = true
		return
	}
	v.ended++
	f := w.run(w.h.Conns[conn].Boot, t.Run)
	if v.started || t.Cause != "exited" && !f.started {
		return // it missed nothing
	}
	if v.queued {
		w.wrong("connection %d saw run %d queued and ended, and not started", conn, t.Run)
	}
	if v.by != nil {
		w.over[v.by] = true
	}
}
