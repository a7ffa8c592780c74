package spec

import (
	"io/fs"
	"slices"
	"strings"
)

// Term is a word or phrase with one meaning.
type Term struct {
	Name       string   // canonical, singular, lower case unless it is a proper name or an acronym
	Aliases    []string // other names for it, which sentences must not use
	Definition string
	// Head marks a noun of which each kind must be a term of its own: with the head "request", a sentence that says
	// "frobnication request" needs that term.
	Head bool

	File string
	Line int
}

type glossaryFile struct {
	Term []struct {
		Name       string   `toml:"name"`
		Aliases    []string `toml:"aliases"`
		Definition string   `toml:"definition"`
		Head       bool     `toml:"head"`
	} `toml:"term"`
}

func loadGlossary(fsys fs.FS, s *Set) error {
	var f glossaryFile
	lines, err := decode(fsys, "glossary.toml", &f, "term", "term.name", "term.aliases", "term.definition", "term.head")
	if err != nil {
		return err
	}
	for i, t := range f.Term {
		s.Terms = append(s.Terms, Term{Name: t.Name, Aliases: t.Aliases, Definition: t.Definition, Head: t.Head,
			File: "glossary.toml", Line: lines.table("term", i)})
	}
	return nil
}

// vocabulary is the glossary, prepared for matching.
type vocabulary struct {
	names   [][]string // canonical names and their plurals, longest first
	term    []int      // index of the term of names[i]
	aliases [][]string
	owner   []string // canonical name of aliases[i]
	heads   map[string]bool
	exact   map[string]bool // names with capitals, as written: "SIGTERM"
}

func newVocabulary(terms []Term) *vocabulary {
	v := &vocabulary{heads: map[string]bool{}, exact: map[string]bool{}}
	type entry struct {
		words []string
		term  int
	}
	var entries []entry
	for i, t := range terms {
		for _, form := range forms(t.Name) {
			entries = append(entries, entry{phrases(tokenize(form)), i})
			for _, w := range tokenize(form) {
				if capitalised(w.text) {
					v.exact[w.text] = true
				}
			}
			if t.Head {
				v.heads[strings.ToLower(form)] = true
			}
		}
		for _, a := range t.Aliases {
			for _, form := range forms(a) {
				v.aliases = append(v.aliases, phrases(tokenize(form)))
				v.owner = append(v.owner, t.Name)
			}
		}
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return len(b.words) - len(a.words) })
	for _, e := range entries {
		v.names = append(v.names, e.words)
		v.term = append(v.term, e.term)
	}
	return v
}

// forms returns a noun phrase and its plural.
func forms(name string) []string {
	if name == "" {
		return nil
	}
	switch {
	case strings.HasSuffix(name, "s") || strings.HasSuffix(name, "x") || strings.HasSuffix(name, "ch"):
		return []string{name, name + "es"}
	case strings.HasSuffix(name, "y") && len(name) > 1 && !strings.ContainsRune("aeiou", rune(name[len(name)-2])):
		return []string{name, name[:len(name)-1] + "ies"}
	}
	return []string{name, name + "s"}
}

func capitalised(w string) bool { return w != "" && w[0] >= 'A' && w[0] <= 'Z' }

// mark returns for each word the index of the term it belongs to, or -1. Longer
// terms win: "ack request" before "request".
func (v *vocabulary) mark(words []string) []int {
	out := make([]int, len(words))
	for i := range out {
		out[i] = -1
	}
	for n, name := range v.names {
		for i := range words {
			if out[i] < 0 && matchAt(words, i, name) && free(out[i:i+len(name)]) {
				for j := range name {
					out[i+j] = v.term[n]
				}
			}
		}
	}
	return out
}

func free(marks []int) bool {
	for _, m := range marks {
		if m >= 0 {
			return false
		}
	}
	return true
}

// aliasIn returns the first alias that words use outside of a term, with its
// canonical name. "exec id" may be a term although "exec" is an alias.
func (v *vocabulary) aliasIn(words []string) (alias, canonical string, found bool) {
	marks := v.mark(words)
	for i := range words {
		for n, a := range v.aliases {
			if matchAt(words, i, a) && free(marks[i:i+len(a)]) {
				return strings.Join(a, " "), v.owner[n], true
			}
		}
	}
	return "", "", false
}

// canonical replaces aliases and plurals by the canonical names, so that two
// spellings of one trigger compare equal.
func (v *vocabulary) canonical(words []string, terms []Term) []string {
	marks := v.mark(words)
	var out []string
	for i := 0; i < len(words); {
		if m := marks[i]; m >= 0 {
			out = append(out, strings.ToLower(terms[m].Name))
			for i < len(words) && marks[i] == m {
				i++
			}
			continue
		}
		step := 1
		text := words[i]
		for n, a := range v.aliases {
			if matchAt(words, i, a) {
				text, step = strings.ToLower(v.owner[n]), len(a)
				break
			}
		}
		out = append(out, text)
		i += step
	}
	return out
}
