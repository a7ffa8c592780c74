package manager

import (
	"math"
	"slices"
)

// Names of errors, in the words of the protocol.
const (
	internal     = "internal"
	malformed    = "malformed_frame"
	unknownID    = "unknown_id"
	bootMismatch = "boot_id_mismatch"
	notFinished  = "not_finished"
)

// targets holds requests that name no run to their one answer.
func (w *watch) targets() {
	for i := range w.h.Operations {
		o := &w.h.Operations[i]
		if !o.Known() || o.Kind == Shutdown {
			continue
		}
		if o.Kind == Run {
			if o.Answer.Code != "" && (o.Answer.Code != internal || !w.shutBefore(o)) {
				w.wrong("%s: a sound request is refused by a shutdown only", o.Label())
			}
			continue
		}
		boot := w.h.boot(o)
		other := o.Kind == Attach && o.Boot != boot
		switch {
		case other != (o.Answer.Code == bootMismatch):
			w.wrong("%s names boot %d on a connection to boot %d", o.Label(), o.Boot, boot)
		case !other && w.runs[runKey{boot, o.Run}] == nil && o.Answer.Code != unknownID:
			w.wrong("%s names an id that nobody was given", o.Label())
		}
	}
}

// shutBefore reports whether a shutdown was asked for by the end of an operation.
func (w *watch) shutBefore(o *Operation) bool {
	return slices.ContainsFunc(w.h.Operations, func(p Operation) bool { return p.Kind == Shutdown && p.Call < until(o) })
}

// identities holds ids to the requests: none is given for nothing, and a token
// gets another one only once its run was released.
func (w *watch) identities() {
	for boot := range w.h.Boots {
		last, known, open := uint64(0), uint64(0), uint64(0)
		for k := range w.runs {
			if k.boot == boot {
				last, known = max(last, k.id), known+1
			}
		}
		for i := range w.h.Operations {
			o := &w.h.Operations[i]
			if o.Kind == Run && w.h.boot(o) == boot && !o.Known() && o.Cut != CutBefore {
				open++
			}
		}
		if last > known+open {
			w.wrong("boot %d gave ids up to %d, and of %d nobody can have asked for the run", boot, last, last-known-open)
		}
	}
	for i := range w.h.Operations {
		if o := &w.h.Operations[i]; o.Kind == Run && !o.Bare && o.Known() && o.Answer.Code == "" {
			w.fresh(o)
		}
	}
}

// fresh looks for the release of each older run of the token.
func (w *watch) fresh(o *Operation) {
	boot := w.h.boot(o)
	for k, f := range w.runs {
		if k.boot != boot || f.owner != o.owner() || k.id >= o.Answer.Run {
			continue
		}
		released := slices.ContainsFunc(w.h.Operations, func(p Operation) bool {
			given := !p.Known() && p.Cut != CutBefore || p.Known() && p.Answer.Code == ""
			return p.Kind == Ack && p.Run == k.id && w.h.boot(&p) == boot && given && p.Call < until(o)
		})
		if !released {
			w.wrong("%s, while run %d of the token was not released", o.Label(), k.id)
		}
	}
}

// until is the end of an operation in time. CONF-1: an effect whose return nobody
// saw may come at any time after the call, so nothing may be ruled out.
func until(o *Operation) int64 {
	if o.Return < 0 {
		return math.MaxInt64
	}
	return o.Return
}
