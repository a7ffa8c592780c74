package model

import (
	"fmt"
	"strings"
)

// PanicError says that a function of a model panicked. Path leads to the state
// in which it did; it is nil when there is none (a panic in Init).
type PanicError struct {
	Model    string
	Function string // the function of the model: "Next"
	Value    string // what it panicked with
	Path     *Path
}

// Error names the function, the value and the path, in several lines.
func (e *PanicError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "model %q: panic in %s: %s", e.Model, e.Function, e.Value)
	if e.Path != nil {
		b.WriteString("\nthe path to the state:\n")
		_ = e.Path.WriteText(&b)
	}
	return strings.TrimRight(b.String(), "\n")
}

// fault is a panic or a refusal, at the state of lowest number that showed one.
type fault struct {
	at      uint32
	doing   activity
	value   string
	refusal string // set for a refusal
}

// panicked makes the fault of a recovered panic.
func (w *worker[S]) panicked(r any) *fault {
	return &fault{at: w.at, doing: w.doing, value: fmt.Sprint(r)}
}

// blame keeps f if it is at a lower state than what is there.
func (w *worker[S]) blame(f *fault) {
	if w.fault == nil || f.at < w.fault.at {
		w.fault = f
	}
}

// guard runs f and keeps a panic as a fault.
func (w *worker[S]) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			w.blame(w.panicked(r))
		}
	}()
	f()
}

// check returns the error of the lowest fault, or of actions that the model
// does not list.
func (s *search[S]) check() error {
	var low *fault
	for _, w := range s.workers {
		if w.fault != nil && (low == nil || w.fault.at < low.at) {
			low = w.fault
		}
	}
	if low != nil {
		return low.error(s)
	}
	if s.total.stray > 0 {
		return refuse(s.m.Name, "Next gave %d steps whose Action.ID is not an index of Actions, which has %d; list every action", s.total.stray, len(s.m.Actions))
	}
	return nil
}

// pathfinder is what a fault needs of a search.
type pathfinder interface {
	modelName() string
	pathTo(n uint32) *Path
}

func (s *search[S]) modelName() string { return s.m.Name }

// pathTo returns the path to state n, or nil when it cannot be rendered.
func (s *search[S]) pathTo(n uint32) (p *Path) {
	if n == noState {
		return nil
	}
	defer func() {
		if recover() != nil {
			p = nil
		}
	}()
	states, actions, err := trail[S]{s}.to(n)
	if err != nil {
		return nil
	}
	return newPath(s.m, states, actions, -1)
}

func (f *fault) error(s pathfinder) error {
	// CHECK-11: a panic without the way to it would have to be searched for.
	path := s.pathTo(f.at)
	if f.refusal == "" {
		return &PanicError{Model: s.modelName(), Function: f.doing.String(), Value: f.value, Path: path}
	}
	if path == nil {
		return refuse(s.modelName(), "%s", f.refusal)
	}
	var b strings.Builder
	_ = path.WriteText(&b)
	return refuse(s.modelName(), "%s\nthe path to the state:\n%s", f.refusal, strings.TrimRight(b.String(), "\n"))
}
