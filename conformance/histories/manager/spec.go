package manager

import (
	"slices"
	"strings"

	"microvms/model/manager"
)

// state is the runs of one token in one boot.
type state struct {
	Object manager.Object
	Body   int  // number of the request whose run it is, among those of the partition
	Shut   bool // of the partition of a shutdown
}

// spec is the sequential specification of one partition.
type spec struct {
	runs []*Operation // the requests that may have made its runs
	ids  []uint64     // the runs that somebody heard of, in ascending order
}

// half says which part of an operation an entry stands for.
type half uint8

const (
	whole  half = iota
	closes      // a shutdown takes no more runs: an object of its own
	admits      // a run request is taken, or refused by a shutdown
	ends        // a shutdown ends the runs that there are
	stops       // the first of all cancels of a run stops it
	finds       // a cancel finds its run
)

// entry is what a search puts into an order: an operation, or something that a
// connection was told.
type entry struct {
	op   *Operation
	half half
	told *Told
	over bool // of a run request: the run had ended when it was found
	shut bool // of a run request: a shutdown may have refused it
}

// Label is the entry in a drawing.
func (e entry) Label() string {
	if e.told != nil {
		return "told " + e.told.String()
	}
	return e.op.Label()
}

// idStep leaves room between two ids for one that nobody heard of.
const idStep = 256

// silent lets the manager and the executor go on by themselves.
func (p *spec) silent(s state) []state {
	if s.Object.Run.Phase == manager.Absent {
		return nil
	}
	program := p.runs[s.Body].Program
	var out []state
	for _, o := range (manager.Atomic{Endless: program == Hang}).Silent(s.Object, nil) {
		spawned := o.Run.Spawned > s.Object.Run.Spawned
		if o.Run.SpawnFailed && program != Missing || spawned && program == Missing {
			continue
		}
		out = append(out, state{o, s.Body, false})
	}
	return out
}

// apply returns the states after an entry, none when it was not answered so.
func (p *spec) apply(s state, e entry) []state {
	if e.told != nil {
		return when(p.saw(s, e.told), s)
	}
	a, atomic := e.op.Answer, manager.Atomic{}
	id := e.op.Run * idStep
	switch e.half {
	case closes:
		return []state{{Shut: true}}
	case admits:
		return when(s.Shut == (a.Code == internal), s)
	case ends:
		s.Object = atomic.Shutdown(s.Object)
		return []state{s}
	case stops:
		s.Object, _ = atomic.Cancel(s.Object, id)
		return []state{s}
	}
	switch e.op.Kind {
	case Run:
		return p.run(s, e)
	case Attach:
		return when(p.shows(s, id, a), s)
	case Read:
		return when(p.reads(s, id, e.op), s)
	case Ack:
		next, answer := atomic.Ack(s.Object, id)
		s.Object = next
		return when(a == nil || a.Code == codes[answer], s)
	}
	_, answer := atomic.Cancel(s.Object, id)
	return when(a.Code == codes[answer], s) // it finds its run, or it finds none
}

func when(ok bool, s state) []state {
	if ok {
		return []state{s}
	}
	return nil
}

// codes are the answers of the model in the words of the protocol.
var codes = map[manager.Answer]string{
	manager.Accepted: "", manager.UnknownID: unknownID, manager.NotFinished: notFinished,
}

// run is a run request. One of unknown outcome may have made any run of the
// partition, or one that nobody ever heard of.
func (p *spec) run(s state, e entry) []state {
	o, atomic := e.op, manager.Atomic{}
	if o.Known() && o.Answer.Code != "" {
		// MGR-3: a shutdown refuses what would be a new run, and no repeat.
		return when(!atomic.Known(s.Object), s)
	}
	if atomic.Known(s.Object) {
		ok := !o.Known() || o.Answer.Run*idStep == s.Object.ID
		return when(ok && (!e.over || ended(s.Object)), s)
	}
	if e.over {
		return nil
	}
	candidates := []uint64{s.Object.ID + 1}
	for _, id := range p.ids {
		candidates = append(candidates, id*idStep)
	}
	if o.Known() {
		candidates = []uint64{o.Answer.Run * idStep}
	}
	kind := manager.Plain
	if o.Program == Refused {
		kind = manager.Invalid
	}
	var out []state
	if !o.Known() && e.shut {
		out = append(out, s)
	}
	for _, id := range candidates {
		if next, ok := atomic.Start(s.Object, kind, id); ok {
			out = append(out, state{next, slices.Index(p.runs, o), false})
		}
	}
	return out
}

func ended(o manager.Object) bool {
	return o.Run.Phase == manager.Finished || o.Run.Phase == manager.Failed
}

// shows holds the answer to an attach to the run.
func (p *spec) shows(s state, id uint64, a *Answer) bool {
	if a == nil {
		return true
	}
	seen := manager.Atomic{}.Attach(s.Object, id)
	t := a.Snapshot
	if seen.Answer != manager.Snapshot {
		return a.Code == codes[seen.Answer]
	}
	switch {
	case t == nil:
		return false
	case seen.Latest == manager.SnapshotQueued:
		return t.Kind == queued
	case seen.Latest == manager.SnapshotStarted:
		return t.Kind == started
	}
	return t.Ended() && seen.End.String() == t.ending() && p.exits(s, t)
}

// ending is what ended the run, in the words of the model.
func (t *Told) ending() string {
	if t.Kind == failedToStart {
		return failedToStart
	}
	return t.Cause
}

// saw reports whether somebody who is subscribed can have been told that by now.
func (p *spec) saw(s state, t *Told) bool {
	kind, end := manager.StartedEvent, manager.End(0)
	if t.Ended() {
		kind = manager.EndedEvent
		for end < manager.FailedToStart && end.String() != t.ending() {
			end++
		}
		if end.String() != t.ending() {
			return false
		}
	}
	id := t.Run * idStep
	return manager.Atomic{}.Told(s.Object, id, kind, end) && (s.Object.ID != id || p.exits(s, t))
}

// exits holds the exit code to the program that the run's own request named. A
// program that a stop overtook may have exited before.
func (p *spec) exits(s state, t *Told) bool {
	if t.Cause != "exited" {
		return true
	}
	if p.runs[s.Body].Program == Quick {
		return t.Code != nil && *t.Code == ExitCode
	}
	return t.Code == nil
}

// reads holds a page to what the program prints. It was killed before or after
// that, unless it exited by itself.
func (p *spec) reads(s state, id uint64, o *Operation) bool {
	a := o.Answer
	if a == nil {
		return true
	}
	switch answer := (manager.Atomic{}).Read(s.Object, id); {
	case answer != manager.Data:
		return a.Code == codes[answer]
	case o.Field == "nothing":
		return a.Code == malformed
	case a.Code != "":
		return false
	case o.Field != "stdout":
		return a.Total == 0 || o.Field == "genvm_log"
	}
	text, run := p.runs[s.Body].Text, s.Object.Run
	if run.Spawned == 0 || run.Cause != manager.ByExit && a.Total == 0 {
		text = ""
	}
	rest := text[min(o.Offset, uint64(len(text))):]
	return a.Total == uint64(len(text)) && a.Data == rest[:min(int(o.Max), len(rest))] && strings.HasPrefix(rest, a.Data)
}
