package manager

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"microvms/conformance/histories"
)

// part is one partition of a history: the runs of one token in one boot.
// Linearizability is local, so each is judged by itself (Herlihy and Wing 1990,
// theorem 1). What couples tokens is the permits, and the model lets a run get
// them at any moment.
type part struct {
	name       string
	operations []porcupine.Operation
	model      porcupine.Model
}

// partition names the part that a run is in: a run without a token is one by
// itself.
func (w *watch) partition(boot int, id uint64) string {
	f := w.runs[runKey{boot, id}]
	if f == nil {
		return ""
	}
	return named(boot, id, f.owner)
}

func named(boot int, id uint64, owner string) string {
	if owner == bareOwner {
		return fmt.Sprintf("boot %d, run %d", boot, id)
	}
	return fmt.Sprintf("boot %d, %s", boot, owner)
}

// parts splits a history, with those effects in it: merged ones, or all.
func (w *watch) parts(effects []interval) []part {
	entries, specs := map[string][]porcupine.Operation{}, map[string]*spec{}
	add := func(name string, client int, e entry, call, end int64) {
		entries[name] = append(entries[name], porcupine.Operation{ClientId: client + 1, Input: e, Call: call, Return: end})
	}
	for i := range w.h.Operations {
		o := &w.h.Operations[i]
		name := w.partOf(o)
		if name == "" {
			continue
		}
		if o.Kind == Run && specs[name] == nil {
			specs[name] = &spec{}
		}
		if o.Kind == Run && (!o.Known() || o.Answer.Code == "") {
			specs[name].runs = append(specs[name].runs, o)
		}
		switch {
		case o.Kind == Cancel && o.Known() && o.Answer.Code == "":
			add(name, o.Client, entry{op: o, half: finds}, o.Call, until(o))
		case !o.Known() && (o.Kind == Cancel || o.Kind == Ack):
		default:
			add(name, o.Client, entry{op: o, over: w.over[o], shut: o.Kind == Run && w.shutBefore(o)}, o.Call, until(o))
		}
	}
	for _, e := range effects {
		add(w.partOf(e.op), e.op.Client, e.entry, e.call, e.end)
	}
	for _, c := range w.h.Conns {
		for _, a := range c.Arrivals {
			if a.Event != nil {
				// It was told before it arrived, and what was told stays true.
				add(w.partition(c.Boot, a.Event.Run), c.Client, entry{told: a.Event}, a.At, a.At)
			}
		}
	}
	for k := range w.runs {
		if s := specs[w.partition(k.boot, k.id)]; s != nil {
			s.ids = append(s.ids, k.id)
		}
	}
	return w.assemble(entries, specs)
}

// interval is an entry with the time in which it has its place.
type interval struct {
	entry
	call, end int64
}

// effects are the cancels that may have stopped a run, and the acks of unknown
// outcome. A cancel whose answer is known finds its run beside that.
func (w *watch) effects() []interval {
	var out []interval
	for i := range w.h.Operations {
		o := &w.h.Operations[i]
		may := !o.Known() || o.Kind == Cancel && o.Answer.Code == ""
		if o.Kind != Cancel && o.Kind != Ack || !may || w.partOf(o) == "" {
			continue
		}
		e := interval{entry{op: o}, o.Call, until(o)}
		if o.Kind == Cancel {
			e.half = stops
		}
		out = append(out, e)
	}
	return out
}

// merge replaces effects that would make the search try orders between which
// nothing differs. A run is stopped by the first of its cancels and released once,
// so
//
//   - the cancels of a run are one stop. There are moments, one within each cancel,
//     the first of which is p, exactly when p is not before the first call and not
//     after the first return;
//   - of the acks that nothing bounds, the one that was sent first can do whatever
//     another can: the others can be left to the end. An ack whose reply was lost
//     stays by itself. It took effect before the reply came, and if that was too
//     early for its run, a later ack may still have released it.
func (w *watch) merge(effects []interval) []interval {
	byRun := map[string]int{}
	var out []interval
	for _, e := range effects {
		if e.op.Kind == Ack && e.end != math.MaxInt64 {
			out = append(out, e)
			continue
		}
		key := fmt.Sprint(e.op.Kind, w.h.boot(e.op), e.op.Run)
		i, ok := byRun[key]
		if !ok {
			byRun[key], out = len(out), append(out, e)
			continue
		}
		out[i].call, out[i].end = min(out[i].call, e.call), min(out[i].end, e.end)
	}
	return out
}

// assemble makes the parts, and enters a shutdown into those of its boot.
func (w *watch) assemble(entries map[string][]porcupine.Operation, specs map[string]*spec) []part {
	var out []part
	for name, all := range entries {
		s := specs[name]
		if s == nil { // runs of a request that nobody saw answered, and that had no token: anything can be
			continue
		}
		slices.Sort(s.ids)
		for i := range w.h.Operations {
			o := &w.h.Operations[i]
			if o.Kind == Shutdown && strings.HasPrefix(name, fmt.Sprintf("boot %d,", w.h.boot(o))) {
				all = append(all, porcupine.Operation{Input: entry{op: o, half: ends}, Call: o.Call, Return: until(o)})
			}
		}
		out = append(out, part{name, all, histories.Search(state{}, s.silent, s.apply)})
	}
	out = append(out, w.admission()...)
	slices.SortFunc(out, func(a, b part) int { return strings.Compare(a.name, b.name) })
	return out
}

// admission is the part of a shutdown: the run requests of its boot, which it
// ends to take. Nothing couples it to the runs that were taken. A repeat is taken
// at any time, so of the requests that got one id that which was sent first had
// to come before: if any of them did, it can have.
func (w *watch) admission() []part {
	var all []porcupine.Operation
	for i := range w.h.Operations {
		o := &w.h.Operations[i]
		half := admits
		if o.Kind == Shutdown {
			half = closes
		}
		if o.Kind == Shutdown || o.Kind == Run && o.Known() && w.h.boot(o) == len(w.h.Boots)-1 && !w.repeats(o) {
			all = append(all, porcupine.Operation{ClientId: o.Client + 1, Input: entry{op: o, half: half}, Call: o.Call, Return: until(o)})
		}
	}
	if !slices.ContainsFunc(w.h.Operations, func(o Operation) bool { return o.Kind == Shutdown }) {
		return nil
	}
	s := &spec{}
	return []part{{"admission", all, histories.Search(state{}, s.silent, s.apply)}}
}

// repeats reports whether another request can have made the run that a request
// was given, and can have been earlier.
func (w *watch) repeats(o *Operation) bool {
	if o.Answer.Code != "" || o.Bare {
		return false
	}
	return slices.ContainsFunc(w.h.Operations, func(p Operation) bool {
		same := p.Kind == Run && !p.Bare && p.Token == o.Token && p.Cut != CutBefore && w.h.boot(&p) == w.h.boot(o)
		return same && p.Call < o.Call && (!p.Known() || p.Answer.Code == "" && p.Answer.Run == o.Answer.Run)
	})
}

// partOf is the part that an operation is in, "" if it is judged without one: it
// names no run, or it cannot have had an effect and nobody knows what it saw.
func (w *watch) partOf(o *Operation) string {
	boot := w.h.boot(o)
	switch {
	case o.Kind == Shutdown, o.Cut == CutBefore, !o.Known() && !o.Kind.Effectful(), o.Kind == Attach && o.Boot != boot:
		return ""
	case o.Kind != Run:
		return w.partition(boot, o.Run)
	case o.Bare && (!o.Known() || o.Answer.Code != ""):
		return "" // nobody knows which; or refused, which is of the admission
	case o.Bare:
		return named(boot, o.Answer.Run, bareOwner)
	}
	return named(boot, 0, o.owner())
}

// Judge decides a history: what each connection saw by itself must be sound, and
// each part must be linearizable. The text says what is wrong.
func Judge(h *History) (histories.Verdict, string) {
	w := watched(h)
	if w.found != "" {
		return histories.NotLinearizable, w.found
	}
	worst, text := histories.Linearizable, ""
	for _, p := range w.parts(w.merge(w.effects())) {
		switch v, _ := histories.Check(p.model, p.operations); v {
		case histories.NotLinearizable:
			return v, fmt.Sprintf("part %q of %d entries has no order that the model allows", p.name, len(p.operations))
		case histories.Undecided:
			worst, text = v, fmt.Sprintf("part %q of %d entries was not decided in time", p.name, len(p.operations))
		}
	}
	return worst, text
}

// save writes a history that failed into dir, with drawings of its parts, and
// returns its path. Where a connection by itself was wrong, every part is drawn.
//
// VERIFY-11: a failure that cannot be judged and looked at again is a rumour.
func (h *History) save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cannot make the folder for failed histories: %w", err)
	}
	data, err := h.Encode()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, h.Name+".json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return "", fmt.Errorf("cannot save the history: %w", err)
	}
	w := watched(h)
	for i, p := range w.parts(w.merge(w.effects())) {
		v, info := histories.Check(p.model, p.operations)
		if v == histories.Linearizable && w.found == "" {
			continue
		}
		drawing := filepath.Join(dir, fmt.Sprintf("%s.%d.html", h.Name, i))
		if err := porcupine.VisualizePath(p.model, info, drawing); err != nil {
			return path, fmt.Errorf("cannot draw the history: %w", err)
		}
	}
	return path, nil
}
