package replay

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"microvms/model"
)

// counter is the state of a toy model: a counter from 0 to 3 that can be
// incremented, read, and reset.
type counter struct{ Value uint8 }

const (
	increment uint16 = iota
	read
	reset
)

func counterModel() model.Model[counter] {
	return model.Model[counter]{
		Name: "counter", Config: "toy",
		Actions: []model.ActionInfo{{Name: "Increment"}, {Name: "Read"}, {Name: "Reset"}},
		Init:    func(out []counter) []counter { return append(out, counter{}) },
		Next: func(s counter, out []model.Step[counter]) []model.Step[counter] {
			if s.Value < 3 {
				out = append(out, model.Step[counter]{Action: model.Act(increment), State: counter{s.Value + 1}})
			}
			out = append(out, model.Step[counter]{Action: model.Act(read), State: s})
			if s.Value > 0 {
				out = append(out, model.Step[counter]{Action: model.Act(reset), State: counter{}})
			}
			return out
		},
		Properties: []model.Property[counter]{
			model.AlwaysStep("a reset clears", func(_ counter, a model.Action, to counter) bool { return a.ID != reset || to.Value == 0 }, "TOY-1").
				WhenStep(func(_ counter, a model.Action, _ counter) bool { return a.ID == reset }),
			model.Always("bounded", func(s counter) bool { return s.Value <= 3 }, "TOY-2").When(func(s counter) bool { return s.Value == 3 }),
			model.Always("says nothing in particular", func(counter) bool { return true }, "TOY-3"),
		},
	}
}

// counterSystem is the system that the toy replay drives; wrong plants a fault.
type counterSystem struct {
	value  int
	wrong  string
	closed *int
}

func (c *counterSystem) Do(_ context.Context, t Transition[counter]) error {
	switch t.Action.ID {
	case increment:
		if c.wrong != "lost" || c.value != 2 {
			c.value++
		}
	case reset:
		c.value = 0
	case read:
		if c.wrong == "read" && c.value == 3 {
			return errors.New("read answered 4")
		}
	}
	return nil
}

func (c *counterSystem) Observe(context.Context, Transition[counter]) (Observation, error) {
	if c.wrong == "blind" {
		return nil, errors.New("no answer")
	}
	return Observation{{Name: "value", Value: strconv.Itoa(c.value)}}, nil
}

func (c *counterSystem) Close() error {
	*c.closed++
	if c.wrong == "close" {
		return errors.New("left something behind")
	}
	return nil
}

func counterSpec(wrong string, closed *int) Spec[counter] {
	return Spec[counter]{
		Name: "counter", Target: "toy", Model: counterModel(), Parallel: 1,
		Start: func(context.Context, counter) (Driver[counter], error) {
			if wrong == "start" {
				return nil, errors.New("no such file")
			}
			return &counterSystem{wrong: wrong, closed: closed}, nil
		},
		Project: func(t Transition[counter]) Observation {
			if wrong == "mute" {
				return nil
			}
			return Observation{{Name: "value", Value: strconv.Itoa(int(t.To.Value))}}
		},
	}
}

// TestRunTakesEveryTransition replays a right system: every transition counts
// once, and shows the requirements whose case it is.
func TestRunTakesEveryTransition(t *testing.T) {
	t.Attr("requirement", "CONF-7")
	closed := 0
	r, err := Run(t.Context(), counterSpec("", &closed))
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if r.Transitions != 10 || r.Replayed != 10 || closed != r.Paths || r.Steps < 10 {
		t.Errorf("result %+v, closed %d", r, closed)
	}
	// Three resets; the value 3 is entered by one increment, and the read that keeps it shows nothing new.
	if r.Requirements["TOY-1"] != 3 || r.Requirements["TOY-2"] != 1 || len(r.Requirements) != 2 {
		t.Errorf("requirements %v", r.Requirements)
	}
}

// TestRunNoticesEachFault plants a fault in each part of the system, and in the
// judge's own projection.
func TestRunNoticesEachFault(t *testing.T) {
	t.Attr("requirement", "CONF-3")
	for wrong, words := range map[string]string{
		"lost":  "value is 2, the model says value 3",
		"read":  "read answered 4",
		"blind": "cannot observe",
		"start": "cannot start the system",
		"close": "left something behind",
		"mute":  "the model says nothing",
	} {
		closed := 0
		r, err := Run(t.Context(), counterSpec(wrong, &closed))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Err(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("fault %q: got %v, want words %q", wrong, err, words)
		}
	}
	if diff := compare(Observation{{Name: "a", Value: "1"}}, Observation{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}}); diff == "" {
		t.Error("a missing field was not noticed")
	}
}

// TestSkipsAreAccountedFor checks that skipped transitions are counted by name,
// that a skip needs a reason and a purpose, and that too many are refused.
func TestSkipsAreAccountedFor(t *testing.T) {
	t.Attr("requirement", "VERIFY-9")
	t.Attr("requirement", "CONF-2")
	closed := 0
	run := func(skips ...Skip[counter]) (*Result, error) {
		s := counterSpec("", &closed)
		// More transitions, so that one of them is less than the largest share.
		s.Model.Next = func(c counter, out []model.Step[counter]) []model.Step[counter] {
			for arg := range uint8(10) {
				out = append(out, model.Step[counter]{Action: model.Act(read, arg), State: c})
			}
			return append(out, counterModel().Next(c, nil)[0], model.Step[counter]{Action: model.Act(reset), State: counter{}})
		}
		s.Skips = skips
		return Run(t.Context(), s)
	}
	zero := func(t Transition[counter]) bool { return t.From.Value == 0 }
	r, err := run(Skip[counter]{Action: "Reset", Reason: "nothing to reset", Match: zero})
	if err != nil || r.Err() != nil {
		t.Fatal(err, r.Err())
	}
	if len(r.Skips) != 1 || r.Skips[0].Transitions != 1 || r.Replayed+1 != r.Transitions {
		t.Errorf("result %+v", r)
	}
	for name, s := range map[string]Skip[counter]{
		"no reason":       {Action: "Reset", Match: zero},
		"selects nothing": {Action: "Rest", Reason: "misspelt"},
		"too much":        {Action: "Read", Reason: "all of them"},
	} {
		if _, err := run(s); err == nil {
			t.Errorf("a skip was accepted: %s", name)
		}
	}
}

// TestResultIsWritten checks the file that verification reads, and that a result
// that leaves transitions out, or replayed nothing, is an error.
func TestResultIsWritten(t *testing.T) {
	t.Attr("requirement", "VERIFY-19")
	dir := t.TempDir()
	t.Setenv(OutputVariable, dir)
	r := &Result{Model: "m", Config: "c", Transitions: 3, Replayed: 2, Requirements: map[string]int{"A-1": 2},
		Skips: []Skipped{{Action: "X", Reason: "y", Transitions: 1}}}
	if err := r.Write("name"); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "name.replay.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil || got["replayed"] != 2.0 || got["model"] != "m" {
		t.Errorf("wrote %s (%v)", data, err)
	}
	if r.Err() != nil {
		t.Error(r.Err())
	}
	r.Skips = nil
	if r.Err() == nil {
		t.Error("a transition that was neither replayed nor skipped was not noticed")
	}
	if (&Result{}).Err() == nil {
		t.Error("an empty replay passed")
	}
	t.Setenv(OutputVariable, filepath.Join(dir, "absent"))
	if r.Write("name") == nil {
		t.Error("a result that cannot be written was not noticed")
	}
}

// TestPairsAreCounted replays (action, abstract state) pairs: the result counts
// them, a fault is noticed, and skips are refused.
func TestPairsAreCounted(t *testing.T) {
	spec := func(wrong string) Spec[counter] {
		s := counterSpec(wrong, new(int))
		s.Cover.Abstract = func(s counter) uint64 { return min(uint64(s.Value), 1) }
		return s
	}
	r, err := Run(t.Context(), spec(""))
	if err != nil {
		t.Fatal(err)
	}
	// Read and Increment at zero; those and Reset above.
	if err := r.Err(); err != nil || r.Transitions != 5 || r.Replayed != 5 || r.Unit != "pairs" {
		t.Errorf("%v, %+v", err, r)
	}
	if r, err := Run(t.Context(), spec("blind")); err != nil || r.Err() == nil {
		t.Errorf("a fault was not noticed: %v, %+v", err, r)
	}
	s := spec("")
	s.Skips = []Skip[counter]{{Action: "Reset", Reason: "it is not there"}}
	if _, err := Run(t.Context(), s); err == nil {
		t.Error("a replay of pairs skipped transitions")
	}
}
