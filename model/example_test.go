package model_test

import (
	"context"
	"fmt"
	"os"

	"microvms/model"
)

// A lock with two clients. Each state is a plain value: what each client does.
type lock struct {
	Client [2]uint8 // idle, waiting, holding
}

const (
	idle = iota
	waiting
	holding
)

const (
	request uint16 = iota
	acquire
	release
)

// lockModel returns the model; a broken lock does not look whether it is free.
func lockModel(broken bool) model.Model[lock] {
	both := func(s lock) bool { return s.Client[0] == holding && s.Client[1] == holding }
	return model.Model[lock]{
		Name:    "lock",
		Actions: []model.ActionInfo{{Name: "Request", Params: []string{"client"}}, {Name: "Acquire", Params: []string{"client"}}, {Name: "Release", Params: []string{"client"}}},
		Init:    func(out []lock) []lock { return append(out, lock{}) },
		Next: func(s lock, out []model.Step[lock]) []model.Step[lock] {
			for i := range s.Client {
				to, action := s, request
				switch s.Client[i] {
				case idle:
					to.Client[i] = waiting
				case waiting:
					if s.Client[1-i] == holding && !broken {
						continue
					}
					to.Client[i], action = holding, acquire
				case holding:
					to.Client[i], action = idle, release
				}
				out = append(out, model.Step[lock]{Action: model.Act(action, uint8(i)), State: to})
			}
			return out
		},
		Properties: []model.Property[lock]{
			model.Always("at most one client holds the lock", func(s lock) bool { return !both(s) }).WitnessedBy("the lock is contended"),
			model.Sometimes("the lock is contended", func(s lock) bool { return s.Client[0] == waiting && s.Client[1] == holding }),
		},
	}
}

func Example() {
	r, err := model.Check(context.Background(), lockModel(true), model.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Verdict, r.Reason)
	_ = r.Properties[0].Path.WriteText(os.Stdout)
	// Output:
	// violated violated: "at most one client holds the lock"
	//  0  initial state
	//       Client = [0 0]
	//  1  Request(client=0)
	//       Client = [1 0]
	//  2  Acquire(client=0)
	//       Client = [2 0]
	//  3  Request(client=1)
	//       Client = [2 1]
	//  4  Acquire(client=1)
	//       Client = [2 2]
}

// Under weak fairness the lock may go to the same client again and again; strong
// fairness of Acquire gives it to each that waits.
func Example_liveness() {
	for _, strong := range []bool{false, true} {
		m := lockModel(false)
		for i := range uint8(2) {
			m.Properties = append(m.Properties, model.LeadsTo(fmt.Sprintf("client %d gets the lock", i),
				func(s lock) bool { return s.Client[i] == waiting }, func(s lock) bool { return s.Client[i] == holding }))
			m.Fairness = append(m.Fairness, model.Fairness{Strong: strong, Match: func(a model.Action) bool { return a.ID == acquire && a.Arg[0] == i }})
		}
		m.Fairness = append(m.Fairness, model.Weak("holders release", release))
		r, err := model.Check(context.Background(), m, model.Options{})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("strong:", strong, r.Verdict)
		if path := r.Properties[2].Path; path != nil {
			_ = path.WriteText(os.Stdout)
		}
	}
	// Output:
	// strong: false violated
	//  0  initial state
	//       Client = [0 0]
	// >1  Request(client=0)
	//       Client = [1 0]
	//  2  Request(client=1)
	//       Client = [1 1]
	//  3  Acquire(client=1)
	//       Client = [1 2]
	//  4  Release(client=1)
	//       Client = [1 0]
	//     and again from step 1, for ever
	// strong: true holds
}

// The two clients are interchangeable: states that differ by their names count once.
func ExampleSymmetry() {
	m := lockModel(false)
	swap := func(s lock) lock { s.Client[0], s.Client[1] = s.Client[1], s.Client[0]; return s }
	m.Properties[1] = model.Sometimes("the lock is contended", func(s lock) bool {
		return s.Client == [2]uint8{waiting, holding} || s.Client == [2]uint8{holding, waiting}
	})
	m.Symmetry = &model.Symmetry[lock]{
		Canonical: func(s lock) lock {
			if s.Client[0] > s.Client[1] {
				s = swap(s)
			}
			return s
		},
		Generators: []func(lock) lock{swap},
	}
	r, err := model.Check(context.Background(), m, model.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(r.Verdict, "orbits:", r.Distinct)
	m.Symmetry = nil
	r, _ = model.Check(context.Background(), m, model.Options{})
	fmt.Println(r.Verdict, "states:", r.Distinct)
	// Output:
	// holds orbits: 5
	// holds states: 8
}

// A cover is a set of paths that take every transition: a driver that follows
// them has shown the real system everything that the model can do.
func ExampleCoverPaths() {
	paths, err := model.CoverPaths(context.Background(), lockModel(false), model.CoverOptions[lock]{})
	if err != nil {
		fmt.Println(err)
		return
	}
	m := lockModel(false)
	for _, p := range paths {
		fmt.Println(len(p.Steps), "steps, the last one", m.ActionString(p.Steps[len(p.Steps)-1].Action), "to", p.Steps[len(p.Steps)-1].State.Client)
	}
	// Output:
	// 12 steps, the last one Acquire(client=1) to [1 2]
	// 6 steps, the last one Release(client=1) to [0 0]
}
