package admission

import "microvms/model"

// found turns a report into the expectation that it would meet.
func found(r *model.Report) model.Expect {
	e := model.Expect{Distinct: r.Distinct, States: r.States, Depth: r.Depth}
	for _, p := range r.Properties {
		if p.Verdict == model.Violated {
			if e.Violated == nil {
				e.Violated = map[string]int{}
			}
			n := 0
			if p.Path != nil {
				n = p.Path.Len()
			}
			e.Violated[p.Name] = n
		}
	}
	return e
}
