package cost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Amount is what a line costs: [Estimated] or [Unpriced]. A type switch tells
// which; an Amount has no number that could be read without asking. A nil Amount
// counts as unpriced.
//
// COST-3: a variant of its own, because zero is a price, and "nobody knows" is not.
type Amount interface {
	// String shows the amount as reports do.
	String() string
	amount()
}

// Estimated is an amount with a price. Its zero value is zero dollars.
type Estimated struct{ usd Dollars }

// Unpriced is an amount for which there is no price.
type Unpriced struct{ reason string }

// unstated is the reason of an Unpriced that was made without one.
const unstated = "no reason was stated"

// NewEstimated is the amount of a priced line.
func NewEstimated(usd Dollars) Estimated { return Estimated{usd} }

// NewUnpriced is the amount of a line that cannot be priced, and why.
func NewUnpriced(reason string) Unpriced { return Unpriced{reason} }

// USD is the price.
func (e Estimated) USD() Dollars { return e.usd }

// Reason says why there is no price. It is never empty.
func (u Unpriced) Reason() string {
	if strings.TrimSpace(u.reason) == "" {
		return unstated
	}
	return u.reason
}

// String is the price in a report's form.
func (e Estimated) String() string { return e.usd.String() }

// String says that there is no price, and why.
func (u Unpriced) String() string { return "unpriced: " + u.Reason() }

func (Estimated) amount() {}
func (Unpriced) amount()  {}

// MarshalJSON writes the kind and the exact price as a string.
func (e Estimated) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind string  `json:"kind"`
		USD  Dollars `json:"usd"`
	}{"estimated-usd", e.usd})
}

// MarshalJSON writes the kind and the reason.
//
// BIND-5: without a usd key, so that what reads the document gets no number, not
// a zero.
func (u Unpriced) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Kind   string `json:"kind"`
		Reason string `json:"reason"`
	}{"unpriced", u.Reason()})
}

// settled turns what this package did not make into an unpriced amount.
func settled(a Amount) Amount {
	switch a := a.(type) {
	case Estimated, Unpriced:
		return a
	case nil:
		return Unpriced{"the line has no amount"}
	}
	return Unpriced{fmt.Sprintf("the line has an amount of unknown kind %T", a)}
}

// Total is a sum of lines: [Exact], or [AtLeast] when a line is unpriced.
type Total interface {
	// String shows the total as reports do.
	String() string
	total()
}

// Exact is the total of lines that are all priced.
type Exact struct{ usd Dollars }

// AtLeast is a lower bound: what is priced, and what it leaves out.
type AtLeast struct {
	floor    Dollars
	unpriced []Omitted
}

// Omitted is one line that a lower bound leaves out.
type Omitted struct {
	Phase  Phase
	Reason string
}

// USD is the total.
func (e Exact) USD() Dollars { return e.usd }

// Floor is the sum of the priced lines.
func (a AtLeast) Floor() Dollars { return a.floor }

// Unpriced lists the lines left out, in the order of the report; the slice is the
// caller's.
func (a AtLeast) Unpriced() []Omitted { return slices.Clone(a.unpriced) }

// String is the total in a report's form.
func (e Exact) String() string { return e.usd.String() }

// String says "at least", how much, and which phases are left out.
func (a AtLeast) String() string {
	phases := make([]string, len(a.unpriced))
	for i, o := range a.unpriced {
		phases[i] = string(o.Phase)
	}
	slices.Sort(phases)
	return fmt.Sprintf("at least %s, plus %d unpriced (%s)", a.floor, len(a.unpriced), strings.Join(slices.Compact(phases), ", "))
}

func (Exact) total()   {}
func (AtLeast) total() {}

// Sum adds lines, and is the only way to a Total.
func Sum(items []Item) Total {
	var floor Dollars
	var unpriced []Omitted
	for _, item := range items {
		switch a := settled(item.Amount).(type) {
		case Estimated:
			floor = floor.Add(a.usd)
		case Unpriced:
			unpriced = append(unpriced, Omitted{item.Phase, a.Reason()})
		}
	}
	// COST-4: one unpriced line makes the sum a lower bound, because what is not
	// known may be anything above zero.
	if len(unpriced) > 0 {
		return AtLeast{floor, unpriced}
	}
	return Exact{floor}
}

// pricedOf is the part of a total that is known.
func pricedOf(t Total) Dollars {
	switch t := t.(type) {
	case Exact:
		return t.usd
	case AtLeast:
		return t.floor
	}
	panic(fmt.Sprintf("cost: internal error: a total of kind %T", t))
}

// Verdict is the answer to whether a total stays within a limit.
type Verdict string

// The verdicts. A lower bound under the limit decides nothing.
const (
	Within       Verdict = "within"
	Over         Verdict = "over"
	Undetermined Verdict = "undetermined"
)

// Judge compares a total with a limit. Reaching the limit is within it.
func Judge(t Total, limit Dollars) Verdict {
	if pricedOf(t).Cmp(limit) > 0 {
		return Over
	}
	if _, bound := t.(AtLeast); bound {
		return Undetermined
	}
	return Within
}
