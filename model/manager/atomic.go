package manager

import "microvms/model"

// The atomic form: the runs that one token names, one after another, as clients
// see them, one request a step. It is made of the rule of the run model, so a
// history of the real manager is judged by what was checked, not by a second
// description.
//
// What the manager, executors and time do by themselves are silent steps between
// the requests: a judge lets them happen where they can. Permits are shared with
// other tokens, so that a grant can be silent at any moment.

// Object is one token in the atomic form. It is comparable.
type Object struct {
	Run RunState // of the newest run that the token named; Absent: none yet
	ID  uint64   // of that run; 0: none yet
}

// Atomic is the sequential specification of one token.
type Atomic struct {
	// Time lets deadlines and retentions pass.
	Time bool
	// Endless: executors end by a stop only.
	Endless bool
}

// Seen is what an attach shows, beside its answer: what kind of event, and the
// ending if it is one.
type Seen struct {
	Answer Answer
	Latest ItemKind // SnapshotQueued, SnapshotStarted or SnapshotEnded; NoItem without a snapshot
	End    End
}

// atomicRule is the rule for one run that nobody is subscribed to.
var atomicRule = Config{Name: "atomic", Runs: 1, Conns: 1, Permits: 2, Tokens: []uint8{1}, Kinds: []Kind{Plain, Invalid, Big}}

// state is the model's state with the object's run in it.
func (o Object) state() State {
	s := State{Free: atomicRule.permits() - o.Run.Held}
	s.Runs[0] = o.Run
	s.Conns[0].Up = true
	return s
}

// names reports whether id is the known run of the object.
func (o Object) names(id uint64) bool { return id == o.ID && o.Run.known() }

// Silent appends the objects to which the manager, the executor or time can lead
// by itself, one step each.
func (a Atomic) Silent(o Object, out []Object) []Object {
	var buf [4]step
	s := o.state()
	steps := atomicRule.own(s, 0, buf[:0])
	if o.Run.Phase == Running && !a.Endless {
		steps = append(steps, atomicRule.with(s, model.Act(ActExecutorExit, 0), func(s *State) { atomicRule.exit(s, 0) }))
	}
	if a.Time {
		steps = atomicRule.time(s, 0, steps)
	}
	for _, next := range steps {
		if next.State.Runs[0] != o.Run {
			out = append(out, Object{next.State.Runs[0], o.ID})
		}
	}
	return out
}

// Start is a run request with the object's token that was answered id. ok is
// false when the manager cannot have answered that. An answer of unknown id is
// left open by its caller.
func (a Atomic) Start(o Object, kind Kind, id uint64) (next Object, ok bool) {
	s := o.state()
	s.Runs[0].Token = 1
	if i := atomicRule.holder(&s, 1); i >= 0 && o.Run.known() {
		return o, id == o.ID
	}
	if id <= o.ID {
		return o, false
	}
	s.Runs[0] = RunState{}
	atomicRule.run(&s, 0, 1, kind)
	return Object{s.Runs[0], id}, true
}

// Known reports whether a run request with the object's token is a repeat.
func (a Atomic) Known(o Object) bool { return o.Run.known() }

// Attach is an attach under the current boot.
func (a Atomic) Attach(o Object, id uint64) Seen {
	if !o.names(id) {
		return Seen{Answer: UnknownID}
	}
	s := o.state()
	seen := Seen{Answer: atomicRule.attachAnswer(&s, 0, 0)}
	atomicRule.attach(&s, 0, 0, 0)
	i := s.Conns[0].Out[0]
	seen.Latest, seen.End = i.Kind(), i.End()
	return seen
}

// Cancel is a cancel.
func (a Atomic) Cancel(o Object, id uint64) (Object, Answer) {
	if !o.names(id) {
		return o, UnknownID
	}
	s := o.state()
	answer := atomicRule.Answer(s, model.Act(ActCancel, 0))
	atomicRule.stop(&s, 0, ByCancel)
	return Object{s.Runs[0], o.ID}, answer
}

// Ack is an ack.
func (a Atomic) Ack(o Object, id uint64) (Object, Answer) {
	if !o.names(id) {
		return o, UnknownID
	}
	s := o.state()
	answer := atomicRule.Answer(s, model.Act(ActAck, 0))
	if answer == Accepted {
		atomicRule.release(&s, 0)
	}
	return Object{s.Runs[0], o.ID}, answer
}

// Read is a get_artifact of a field that exists.
func (a Atomic) Read(o Object, id uint64) Answer {
	if !o.names(id) {
		return UnknownID
	}
	return atomicRule.Answer(o.state(), model.Act(ActRead, 0))
}

// Told reports whether a connection that is subscribed can have been sent the
// event by now.
func (a Atomic) Told(o Object, id uint64, kind ItemKind, end End) bool {
	switch {
	case id != o.ID:
		return id < o.ID
	case kind == StartedEvent:
		return o.Run.Spawned > 0 || o.Run.Phase == Released
	case o.Run.Phase == Released:
		return true
	}
	return o.Run.over() && o.Run.end() == end
}

// Shutdown is what a shutdown of the manager does to the runs of the object. That
// no run is taken afterwards is of the manager, not of one token.
func (a Atomic) Shutdown(o Object) Object {
	s := o.state()
	atomicRule.shutdown(&s)
	return Object{s.Runs[0], o.ID}
}
