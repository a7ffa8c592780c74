package histories

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/anishathalye/porcupine"
)

// Entry is what a search puts into an order. Its label is what a drawing shows.
type Entry interface {
	comparable
	Label() string
}

// specificationOf is a sequential specification over comparable states: the state
// in which the daemon starts, those to which it can go by itself, and those in
// which it may be after an operation that was answered as recorded. An
// operation without an answer may have been answered in any way.
type specificationOf[S comparable, E Entry] struct {
	init   S
	silent func(s S) []S
	apply  func(s S, e E) []S
}

type specification[S comparable] = specificationOf[S, entry]

// Search returns the model of a sequential specification that porcupine decides
// histories with: the inputs of its operations are entries of type E. silent and
// apply are as in the specifications of this package, and pure; the model serves
// one goroutine.
func Search[S comparable, E Entry](init S, silent func(s S) []S, apply func(s S, e E) []S) porcupine.Model {
	return specificationOf[S, E]{init, silent, apply}.porcupine()
}

// powerset turns a non-deterministic specification into the deterministic model
// that porcupine searches: its states are sets of states, each closed under
// silent steps. States and sets are numbered and steps remembered, so that the
// search compares numbers. It serves one partition and one goroutine.
type powerset[S comparable, E Entry] struct {
	spec    specificationOf[S, E]
	number  map[S]int32
	states  []S
	closed  [][]int32 // by state: the states that silent steps lead to, itself included
	setOf   map[string]int32
	sets    [][]int32
	applied map[stepKey[E]]int32 // -1: the step is not possible
}

type stepKey[E Entry] struct {
	set   int32
	entry E
}

func (sp specificationOf[S, E]) porcupine() porcupine.Model {
	p := &powerset[S, E]{spec: sp, number: map[S]int32{}, setOf: map[string]int32{}, applied: map[stepKey[E]]int32{}}
	return porcupine.Model{
		Init:              func() any { return p.set(p.closure(p.intern(sp.init))) },
		Step:              func(state, input, _ any) (bool, any) { return p.step(state.(int32), input.(E)) },
		Hash:              func(state any) uint64 { return uint64(state.(int32)) * 0x9e3779b97f4a7c15 },
		DescribeOperation: func(input, _ any) string { return input.(E).Label() },
		DescribeState:     func(state any) string { return p.describe(state.(int32)) },
	}
}

func (p *powerset[S, E]) intern(s S) int32 {
	n, ok := p.number[s]
	if !ok {
		n = int32(len(p.states))
		p.number[s] = n
		p.states = append(p.states, s)
		p.closed = append(p.closed, nil)
	}
	return n
}

// closure returns the states that silent steps lead to from state n, n among them, ascending.
func (p *powerset[S, E]) closure(n int32) []int32 {
	if p.closed[n] != nil {
		return p.closed[n]
	}
	seen := []int32{n}
	for i := 0; i < len(seen); i++ {
		for _, s := range p.spec.silent(p.states[seen[i]]) {
			if m := p.intern(s); !slices.Contains(seen, m) {
				seen = append(seen, m)
			}
		}
	}
	slices.Sort(seen)
	p.closed[n] = seen
	return seen
}

// set numbers a set; members is sorted and without repetitions.
func (p *powerset[S, E]) set(members []int32) int32 {
	key := make([]byte, 0, 4*len(members))
	for _, m := range members {
		key = binary.LittleEndian.AppendUint32(key, uint32(m))
	}
	n, ok := p.setOf[string(key)]
	if !ok {
		n = int32(len(p.sets))
		p.setOf[string(key)] = n
		p.sets = append(p.sets, members)
	}
	return n
}

func (p *powerset[S, E]) step(set int32, e E) (bool, any) {
	key := stepKey[E]{set, e}
	if next, ok := p.applied[key]; ok {
		return next >= 0, next
	}
	var members []int32
	for _, m := range p.sets[set] {
		for _, s := range p.spec.apply(p.states[m], e) {
			members = append(members, p.closure(p.intern(s))...)
		}
	}
	next := int32(-1)
	if len(members) > 0 {
		slices.Sort(members)
		next = p.set(slices.Compact(members))
	}
	p.applied[key] = next
	return next >= 0, next
}

// describe shows a few states of a set: they are drawn in a box.
func (p *powerset[S, E]) describe(set int32) string {
	const most = 3
	text := fmt.Sprintf("%d possible states", len(p.sets[set]))
	for _, m := range p.sets[set][:min(most, len(p.sets[set]))] {
		text += fmt.Sprintf("\n%+v", p.states[m])
	}
	return text
}
