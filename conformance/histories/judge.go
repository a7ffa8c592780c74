package histories

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// Verdict is what the judge says of one partition of a history.
type Verdict string

const (
	Linearizable    Verdict = "linearizable"
	NotLinearizable Verdict = "not linearizable"
	// Undecided: the bound was reached before an answer. It is not a pass.
	Undecided Verdict = "undecided"
)

// judgeLimit bounds the judging of one partition. Partitions take milliseconds; one in thousands, in which nearly
// everything overlaps, takes seconds of processor time, of which a busy machine gives little.
const judgeLimit = 2 * time.Minute

// part is one partition of a history with what the judge needs to decide it.
type part struct {
	name       string
	operations []porcupine.Operation
	model      porcupine.Model
}

// check decides a partition. The visualization is of a longest order that the specification allows.
func (p part) check() (Verdict, porcupine.LinearizationInfo) { return Check(p.model, p.operations) }

// Check decides one partition. The information is on a longest order that the model allows.
func Check(m porcupine.Model, operations []porcupine.Operation) (Verdict, porcupine.LinearizationInfo) {
	result, info := porcupine.CheckOperationsVerbose(m, operations, judgeLimit)
	switch result {
	case porcupine.Ok:
		return Linearizable, info
	case porcupine.Illegal:
		return NotLinearizable, info
	}
	return Undecided, info
}

// half says which part of an operation an entry stands for. Some operations have two effects at two moments: another
// client can stand between them, so each has its own place in the order.
type half uint8

const (
	only       half = iota
	first           // a hook enters the log; a kill arrives
	second          // a hook is decided; a kill is answered
	readsToken      // health: is a token installed
	readsLog        // health: how many hooks came
	readsExecs      // health: how many execs there are, and is one running
)

// entry is what porcupine orders.
type entry struct {
	*Operation
	half   half
	number uint8  // of hooks, kills and writes, to tie the halves together
	path   string // of scope ByPath: the file that the entry is about
	shares bool   // of a start: it overlaps one whose user is unknown, and may get that one's refusal
}

// entries gives the operations as porcupine has them. An open read is left out: it changed nothing and nobody knows
// what it saw. An effectful operation of unknown outcome stays open to the end.
func entries(ops []*Operation) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(o *Operation, h half, number int) {
		end := o.Return
		// CONF-1: an effect may come at any time after the call, so nothing may be ruled out.
		if end < 0 {
			end = math.MaxInt64
		}
		out = append(out, porcupine.Operation{ClientId: o.Client, Input: entry{Operation: o, half: h, number: uint8(number)}, Call: o.Call, Output: o.Answer, Return: end})
	}
	hooks, kills, healths := 0, 0, 0
	for _, o := range ops {
		switch {
		case o.Kind == Hook:
			// The log is written before the body is read, so even a hook cut before its end is in it.
			add(o, first, hooks)
			if o.Cut != CutBefore {
				add(o, second, hooks)
			}
			hooks++
		case o.Cut == CutBefore || !o.Known() && !o.Kind.Effectful():
			// A request that is not whole must have no effect: the judge does without it.
		case o.Kind == Kill:
			add(o, first, kills)
			if o.Known() {
				add(o, second, kills)
			}
			kills++
		case o.Kind == Health:
			// Health reads its facts one after another, with no promise that they are of one moment. Each health request
			// is held to one of them, in turn: all three would make the search try every order of reads.
			add(o, readsToken+half(healths%3), 0)
			healths++
		default:
			add(o, only, 0)
			if o.Kind == Start {
				last := &out[len(out)-1]
				e := last.Input.(entry)
				e.shares = slices.ContainsFunc(ops, o.mayShare)
				last.Input = e
			}
		}
	}
	return out
}

// mayShare reports whether a start overlaps another of its id that is refused for its user. EXEC-3: a start that finds
// its id taken by one that is still being decided waits for that one's outcome, which is its own then.
func (o *Operation) mayShare(p *Operation) bool {
	return p != o && p.Kind == Start && p.Exec == o.Exec && p.User == UnknownUser && p.Cut != CutBefore &&
		(o.Return < 0 || p.Call <= o.Return) && (p.Return < 0 || p.Return >= o.Call)
}

// parts splits a history as its scope says. Linearizability is local: a history is linearizable when its part on each
// object is (Herlihy and Wing 1990, theorem 1), so entries on different objects are judged apart. An exec is an object
// of its own once bootstrap has finished; the hook log always is.
func (h *History) parts() []part {
	switch h.Scope {
	case ByPath:
		return h.fileParts()
	case ByTunnel:
		return h.tunnelParts()
	}
	byPart := map[string][]*Operation{}
	for i := range h.Operations {
		o := &h.Operations[i]
		name := "whole"
		if h.Scope == ByExec {
			name = o.Exec
		}
		byPart[name] = append(byPart[name], o)
	}
	names := make([]string, 0, len(byPart))
	for n := range byPart {
		names = append(names, n)
	}
	sort.Strings(names)
	var out []part
	for _, n := range names {
		all := entries(byPart[n])
		if h.Scope == ByExec {
			out = append(out, part{name: n, operations: all, model: execSpecification(childOf(byPart[n]), h.Ring, h.Greet).porcupine()})
			continue
		}
		log, rest := onLog(all)
		out = append(out,
			part{name: "hook-log", operations: log, model: wholeSpecification(h).porcupine()},
			part{name: n, operations: rest, model: wholeSpecification(h).porcupine()})
	}
	return out
}

// onLog separates the entries on the hook log from the others.
func onLog(all []porcupine.Operation) (log, rest []porcupine.Operation) {
	for _, o := range all {
		e := o.Input.(entry)
		if e.Kind == Hook && e.half == first || e.half == readsLog {
			log = append(log, o)
		} else {
			rest = append(rest, o)
		}
	}
	return log, rest
}

// childOf returns what the starts of an exec run: the same for all of them.
func childOf(ops []*Operation) Child {
	for _, o := range ops {
		if o.Kind == Start {
			return o.Child
		}
	}
	return Quick
}

// Judge decides a history: it is linearizable when each of its partitions is. The text says which partition is not.
func Judge(h *History) (Verdict, string) {
	if h.Scope == ByPath {
		if text := refusedFile(h.pointers()); text != "" {
			return NotLinearizable, text
		}
	}
	if h.Scope == ByTunnel {
		if text := refusedTunnel(h.pointers()); text != "" {
			return NotLinearizable, text
		}
	}
	worst := Linearizable
	text := ""
	for _, p := range h.parts() {
		v, _ := p.check()
		if v == NotLinearizable {
			return v, fmt.Sprintf("partition %q of %d operations has no order that the models allow", p.name, len(p.operations))
		}
		if v == Undecided {
			worst, text = v, fmt.Sprintf("partition %q of %d operations was not decided within %s", p.name, len(p.operations), judgeLimit)
		}
	}
	return worst, text
}

// save writes a history that failed and its drawing into dir, and returns the path of the history.
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
	for _, p := range h.parts() {
		v, info := p.check()
		if v == Linearizable {
			continue
		}
		if err := porcupine.VisualizePath(p.model, info, filepath.Join(dir, h.Name+"."+p.name+".html")); err != nil {
			return path, fmt.Errorf("cannot draw the history: %w", err)
		}
	}
	return path, nil
}
