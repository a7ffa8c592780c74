package model

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrRefused is wrapped by every error that says that a model breaks the rules
// of [Model]. The message says how to mend it.
var ErrRefused = errors.New("model refused")

// refuse makes an error that wraps ErrRefused.
func refuse(name, format string, args ...any) error {
	return fmt.Errorf("%w: model %q: %s", ErrRefused, name, fmt.Sprintf(format, args...))
}

// maxFairness is the number of bits in a fairness mask.
const maxFairness = 64

// validate looks at the model once, before the search: everything that can be
// known without running its functions.
func validate[S comparable](m *Model[S]) error {
	// CHECK-12: equal states must be equal bytes, or the counts are wrong.
	if msg := stateProblem(reflect.TypeFor[S](), "state"); msg != "" {
		return refuse(m.Name, "%s", msg)
	}
	if m.Init == nil || m.Next == nil {
		return refuse(m.Name, "Init and Next must both be set")
	}
	if len(m.Fairness) > maxFairness {
		return refuse(m.Name, "%d fairness assumptions, the most is %d; let one Match select several actions", len(m.Fairness), maxFairness)
	}
	if n := liveProperties(m); n > maxLive {
		return refuse(m.Name, "%d liveness properties, the most is %d; split them over two configurations", n, maxLive)
	}
	for _, f := range m.Fairness {
		if f.Match == nil {
			return refuse(m.Name, "fairness %q has no Match; use Weak or Strong", f.Name)
		}
		for _, id := range f.ids {
			if int(id) >= len(m.Actions) {
				return refuse(m.Name, "fairness %q names action %d, and Actions has %d: an assumption that matches nothing assumes nothing", f.Name, id, len(m.Actions))
			}
		}
	}
	actions := map[string]bool{}
	for i, a := range m.Actions {
		if a.Name == "" || actions[a.Name] {
			return refuse(m.Name, "action %d is called %q: every action needs a name of its own", i, a.Name)
		}
		actions[a.Name] = true
		if len(a.Params) > MaxArgs {
			return refuse(m.Name, "action %q has %d parameters, the most is %d", a.Name, len(a.Params), MaxArgs)
		}
	}
	for _, name := range m.MayBeDead {
		if !actions[name] {
			return refuse(m.Name, "MayBeDead names %q, which is not an action", name)
		}
	}
	if s := m.Symmetry; s != nil && (s.Canonical == nil || len(s.Generators) == 0) {
		return refuse(m.Name, "a symmetry needs Canonical and at least one generator, so that it can be verified; adjacent transpositions are enough")
	}
	return validateProperties(m)
}

func liveProperties[S comparable](m *Model[S]) (n int) {
	for _, p := range m.Properties {
		if p.Kind == KindEventually || p.Kind == KindLeadsTo {
			n++
		}
	}
	return n
}

func validateProperties[S comparable](m *Model[S]) error {
	kinds := map[string]Kind{}
	for i, p := range m.Properties {
		if p.Name == "" {
			return refuse(m.Name, "property %d has no name; write the sentence that it checks", i)
		}
		if _, twice := kinds[p.Name]; twice {
			return refuse(m.Name, "two properties are called %q; reports and goldens tell them apart by name, so rename one", p.Name)
		}
		kinds[p.Name] = p.Kind
		var ok bool
		switch p.Kind {
		case KindAlways, KindSometimes, KindEventually:
			ok = p.State != nil && p.Step == nil && p.From == nil && p.To == nil
		case KindStep, KindSometimesStep:
			ok = p.State == nil && p.Step != nil && p.From == nil && p.To == nil
		case KindLeadsTo:
			ok = p.State == nil && p.Step == nil && p.From != nil && p.To != nil
		}
		if !ok {
			return refuse(m.Name, "property %q sets other functions than its kind %q has; use the constructors", p.Name, p.Kind)
		}
		if p.Name == deadlockName && (m.CheckDeadlock || m.Terminal != nil) {
			return refuse(m.Name, "the name %q belongs to the deadlock check; rename the property", deadlockName)
		}
	}
	for _, p := range m.Properties {
		if p.Witness == "" {
			continue
		}
		if k, ok := kinds[p.Witness]; !ok || (k != KindSometimes && k != KindSometimesStep) {
			return refuse(m.Name, "property %q is witnessed by %q, which is not a Sometimes property of the model", p.Name, p.Witness)
		}
	}
	return nil
}

// stateProblem says what forbids t as a state, or nothing. Equal states must be
// equal bytes, and must mean the same in another process.
func stateProblem(t reflect.Type, at string) string {
	switch t.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return ""
	case reflect.Array:
		return stateProblem(t.Elem(), at+"[…]")
	case reflect.Struct:
		var end uintptr
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Offset != end {
				return paddingProblem(t, at, end, f.Offset, "before field "+f.Name)
			}
			end = f.Offset + f.Type.Size()
			if f.Name == "_" {
				return fmt.Sprintf("%s has a blank field: == ignores it and the fingerprint does not; give it a name and keep it zero", at)
			}
			if msg := stateProblem(f.Type, at+"."+f.Name); msg != "" {
				return msg
			}
		}
		if end != t.Size() {
			return paddingProblem(t, at, end, t.Size(), "at its end")
		}
		return ""
	case reflect.Float32, reflect.Float64, reflect.Complex64, reflect.Complex128:
		return fmt.Sprintf("%s is a %s: 0 and -0 are equal with different bytes, and NaN differs from itself; use a scaled integer", at, t)
	case reflect.String:
		return fmt.Sprintf("%s is a string, which points to its bytes; use a small integer and name its values in Fields or ActionInfo.Values", at)
	case reflect.Interface:
		return fmt.Sprintf("%s is an interface (%s), which holds a pointer; use a struct with a kind field", at, t)
	}
	return fmt.Sprintf("%s is a %s (%s), which points elsewhere; use fixed-size arrays, booleans and integers, with indexes instead of pointers", at, t.Kind(), t)
}

func paddingProblem(t reflect.Type, at string, from, to uintptr, where string) string {
	return fmt.Sprintf("%s (%s) has %d bytes of padding %s: padding is not compared by == but would be hashed; order the fields from wide to narrow, "+
		"or add a field such as pad [%d]uint8 that stays zero", at, t, to-from, where, to-from)
}
