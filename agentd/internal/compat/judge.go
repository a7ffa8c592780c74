package compat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// Declared is what the project says about its own breaks, in the file
// breaks.toml beside the schemas. Entries of earlier versions stay as history.
type Declared struct {
	Breaks  []Break  `toml:"break"`
	Framing []Change `toml:"framing"`
}

// Break is one break that a protocol version makes.
type Break struct {
	Version string `toml:"version"` // the protocol version that makes it
	Line    string `toml:"line"`    // as Compare returns it
	Reason  string `toml:"reason"`
}

// Change is a change of the tunnel's framing. No rule finds one: a review does.
type Change struct {
	Version string `toml:"version"`
	What    string `toml:"what"`
	Reason  string `toml:"reason"`
}

// ParseDeclared reads breaks.toml. It refuses unknown keys, incomplete entries
// and a line that one version lists twice.
func ParseDeclared(text string) (Declared, error) {
	var d Declared
	meta, err := toml.Decode(text, &d)
	if err != nil {
		return d, fmt.Errorf("cannot read the declared breaks: %w", err)
	}
	if u := meta.Undecoded(); len(u) > 0 {
		return d, fmt.Errorf("cannot read the declared breaks: unknown key %q", u[0].String())
	}
	seen := map[[2]string]bool{}
	for _, b := range d.Breaks {
		if b.Version == "" || b.Line == "" || strings.TrimSpace(b.Reason) == "" {
			return d, fmt.Errorf("cannot take the break %q of version %q: version, line and reason are all required", b.Line, b.Version)
		}
		key := [2]string{b.Version, b.Line}
		if seen[key] {
			return d, fmt.Errorf("cannot take the break %q: version %q declares it twice", b.Line, b.Version)
		}
		seen[key] = true
	}
	for _, f := range d.Framing {
		if f.Version == "" || f.What == "" || strings.TrimSpace(f.Reason) == "" {
			return d, fmt.Errorf("cannot take the framing change %q of version %q: version, what and reason are all required", f.What, f.Version)
		}
	}
	return d, nil
}

// Judge holds the schema next to the released schema last, and returns what is
// wrong, one line each with what to do; none when all is well.
func Judge(last, next *Document, d Declared) []string {
	from, err := strconv.ParseUint(last.Protocol, 10, 32)
	to, err2 := strconv.ParseUint(next.Protocol, 10, 32)
	if err != nil || err2 != nil || to < from {
		return []string{fmt.Sprintf("protocol version %q cannot follow the released %q: count it up in whole numbers", next.Protocol, last.Protocol)}
	}
	breaks := Compare(last, next)
	var wrong []string
	if to == from {
		// SCHEMA-10: the version tells clients that a break happened, so without a new one none may.
		for _, b := range breaks {
			wrong = append(wrong, fmt.Sprintf("break within protocol version %s: %s; undo it, or count the version up and declare it", next.Protocol, b))
		}
	}
	var declared []string
	for _, b := range d.Breaks {
		v, err := strconv.ParseUint(b.Version, 10, 32)
		switch {
		case err != nil || v > to:
			wrong = append(wrong, fmt.Sprintf("declared for version %q, which is not reached: %s; the present version is %s", b.Version, b.Line, next.Protocol))
		case v == to:
			declared = append(declared, b.Line)
		}
	}
	if to > from {
		// SCHEMA-11: the list equals what is found, so it can be believed.
		for _, b := range breaks {
			if !slices.Contains(declared, b) {
				wrong = append(wrong, fmt.Sprintf("undeclared break: %s; undo it, or declare it with its reason", b))
			}
		}
		for _, b := range declared {
			if !slices.Contains(breaks, b) {
				wrong = append(wrong, fmt.Sprintf("declared break that is none: %s; remove it", b))
			}
		}
	}
	return wrong
}
