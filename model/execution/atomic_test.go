package execution

import (
	"testing"

	"microvms/model"
)

// TestAtomicIsMadeOfTheModel explores the atomic form under each program and
// checks that every step of it is a behaviour of the checked group model: of
// the start and the spawn together, of one step otherwise, or of a signal that
// came too late to end a child that was about to end by itself.
func TestAtomicIsMadeOfTheModel(t *testing.T) {
	m := NewGroup(GroupConfig{IDs: 1, MaxLives: 1, Kinds: []Kind{Plain}, Kills: true, LeaderIgnores: true})
	looked := 0
	for _, p := range []Program{{Greets: 1, Ends: EndsSoon}, {Greets: 1, Echoes: true, Ends: EndsAtEOF}, {Ends: EndsNever}} {
		a := Atomic{p}
		seen := map[Object]bool{{}: true}
		for queue := []Object{{}}; len(queue) > 0; queue = queue[1:] {
			s := queue[0]
			for _, to := range atomicSteps(a, s) {
				looked++
				if to.Exec != s.Exec && !reaches(m, s.Exec, to.Exec, 3) {
					t.Fatalf("program %+v: the model has no way from\n%+v to\n%+v", p, s.Exec, to.Exec)
				}
				if !seen[to] {
					seen[to] = true
					queue = append(queue, to)
				}
			}
		}
	}
	if looked < 100 {
		t.Errorf("looked at %d steps only", looked)
	}
	if reaches(m, Exec{}, Exec{Phase: Acked}, 3) {
		t.Error("a step that the model does not have was accepted")
	}
}

// atomicSteps lists what can happen to an object, within two writes.
func atomicSteps(a Atomic, s Object) []Object {
	steps := a.Silent(s, nil)
	started, _ := a.Start(s)
	acked, _ := a.Ack(s)
	steps = append(steps, started, acked, a.Kill(s, 0), a.Kill(s, 1))
	for k := range uint8(2) {
		if to, _, ok := a.KillAnswer(s, k); ok {
			steps = append(steps, to)
		}
	}
	ended, _, _ := a.Write(s, 0, true)
	steps = append(steps, ended)
	if s.Accepted < 2 {
		written, _, _ := a.Write(s, 1, false)
		steps = append(steps, written)
	}
	return steps
}

// reaches reports whether the model leads from one record to another within
// some steps.
func reaches(m model.Model[GroupState], from, to Exec, steps int) bool {
	if from == to {
		return true
	}
	if steps == 0 {
		return false
	}
	for _, step := range m.Next(GroupState{Exec: [MaxIDs]Exec{from}}, nil) {
		if step.State.Exec[0] != from && reaches(m, step.State.Exec[0], to, steps-1) {
			return true
		}
	}
	return false
}
