package manager

import (
	"testing"

	"microvms/model"
)

// TestAtomicIsMadeOfTheModel explores the atomic form over two ids and checks
// that every step of it is one of the checked model, and that each answer is the
// model's.
func TestAtomicIsMadeOfTheModel(t *testing.T) {
	c := atomicRule
	m := New(c)
	a := Atomic{Time: true}
	seen := map[Object]bool{{}: true}
	looked := 0
	for queue := []Object{{}}; len(queue) > 0; queue = queue[1:] {
		o := queue[0]
		steps := a.Silent(o, nil)
		for kind := Plain; kind <= Big; kind++ {
			if o.ID < 2 || a.Known(o) {
				id := o.ID
				if !a.Known(o) {
					id++
				}
				next, ok := a.Start(o, kind, id)
				if !ok {
					t.Fatalf("the atomic form refuses id %d of %+v", id, o)
				}
				steps = append(steps, next)
			}
		}
		cancelled, _ := a.Cancel(o, o.ID)
		acked, _ := a.Ack(o, o.ID)
		for _, next := range append(steps, cancelled, acked, a.Shutdown(o)) {
			looked++
			from := o.state()
			if !a.Known(o) && next.ID != o.ID {
				from.Runs[0] = RunState{}
			}
			if next != o && !leads(m, from, next.Run) {
				t.Fatalf("the model has no way from\n%v to\n%v", o.Run, next.Run)
			}
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	if looked < 200 {
		t.Errorf("looked at %d steps only", looked)
	}
}

// leads reports whether a step of the model leads to that run.
func leads(m model.Model[State], from State, to RunState) bool {
	for _, next := range m.Next(from, nil) {
		if next.State.Runs[0] == to {
			return true
		}
	}
	return false
}

// TestAtomicRefuses shows answers that the atomic form does not allow.
func TestAtomicRefuses(t *testing.T) {
	a := Atomic{}
	o, _ := a.Start(Object{}, Plain, 4)
	if _, ok := a.Start(o, Plain, 5); ok {
		t.Error("a repeated token got another id")
	}
	if got := a.Attach(o, 3); got.Answer != UnknownID {
		t.Errorf("an id that was never given: %v", got.Answer)
	}
	if got := a.Attach(o, 4); got != (Seen{Answer: Snapshot, Latest: SnapshotQueued}) {
		t.Errorf("a queued run shows %+v", got)
	}
	if _, got := a.Ack(o, 4); got != NotFinished {
		t.Errorf("an ack of a queued run: %v", got)
	}
	if a.Told(o, 4, EndedEvent, End(ByCancel)) {
		t.Error("a queued run's ending was told")
	}
	o, got := a.Cancel(o, 4)
	if got != Accepted || !a.Told(o, 4, EndedEvent, End(ByCancel)) || a.Told(o, 4, EndedEvent, FailedToStart) {
		t.Errorf("a cancel in the queue: %v, %v", got, o.Run)
	}
	if got := a.Read(o, 4); got != Data {
		t.Errorf("a read of a finished run: %v", got)
	}
	o, got = a.Ack(o, 4)
	if got != Accepted || a.Read(o, 4) != UnknownID {
		t.Errorf("an ack of a finished run: %v, %v", got, o.Run)
	}
	if _, ok := a.Start(o, Plain, 4); ok {
		t.Error("a released token got its old id")
	}
	if next, ok := a.Start(o, Plain, 9); !ok || next.Run.Phase != Queued {
		t.Errorf("a released token did not start again: %v", next.Run)
	}
}
