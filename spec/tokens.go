package spec

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type tokenKind uint8

const (
	word   tokenKind = iota // letters, with inner hyphens and apostrophes, and letters followed by digits
	number                  // begins with a digit
	code                    // `…`, without the backquotes
	quoted                  // "…", without the quotes
	mark                    // any other character
)

// token is a piece of a clause. Words inside code spans are literals of the wire
// and are no words of the sentence.
type token struct {
	kind  tokenKind
	text  string
	start bool // the first token of the sentence
}

func (t token) lower() string { return strings.ToLower(t.text) }

// tokenize splits a text. It never fails: an unclosed span runs to the end.
func tokenize(text string) []token {
	var out []token
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		var t token
		switch {
		case unicode.IsSpace(r):
			text = text[size:]
			continue
		case r == '`' || r == '"':
			t.kind = code
			if r == '"' {
				t.kind = quoted
			}
			body, rest, _ := strings.Cut(text[size:], string(r))
			t.text, text = body, rest
		case unicode.IsDigit(r) || r == '.' && len(text) > 1 && text[1] >= '0' && text[1] <= '9':
			t.kind = number
			t.text, text = takeWhile(text, func(r rune) bool { return unicode.IsDigit(r) || unicode.IsLetter(r) || r == '.' || r == ',' })
			t.text, text = giveBack(t.text, text)
		case unicode.IsLetter(r):
			t.kind = word
			t.text, text = takeWhile(text, func(r rune) bool {
				return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '\'' || r == '’' || r == '+'
			})
		default:
			t.kind, t.text, text = mark, text[:size], text[size:]
		}
		t.start = len(out) == 0
		out = append(out, t)
	}
	return out
}

func takeWhile(text string, in func(rune) bool) (head, rest string) {
	for i, r := range text {
		if !in(r) {
			return text[:i], text[i:]
		}
	}
	return text, ""
}

// giveBack returns final commas and full stops of a number to the text: they end
// the clause. A full stop after digits with nothing behind it ends the sentence.
func giveBack(head, rest string) (string, string) {
	trimmed := strings.TrimRight(head, ",.")
	if trimmed == "" {
		return head, rest
	}
	return trimmed, head[len(trimmed):] + rest
}

// phrases returns the lower-case texts of the tokens; spans and marks stand as
// themselves so that no phrase matches across them.
func phrases(tokens []token) []string {
	out := make([]string, len(tokens))
	for i, t := range tokens {
		switch t.kind {
		case word, number:
			out[i] = t.lower()
		case code, quoted:
			out[i] = "\x00"
		default:
			out[i] = t.text
		}
	}
	return out
}

// findPhrase returns the first of the phrases that occurs in words.
func findPhrase(words []string, list [][]string) (string, bool) {
	for i := range words {
		for _, p := range list {
			if matchAt(words, i, p) {
				return strings.Join(p, " "), true
			}
		}
	}
	return "", false
}

func matchAt(words []string, at int, phrase []string) bool {
	if at+len(phrase) > len(words) {
		return false
	}
	for i, w := range phrase {
		if words[at+i] != w {
			return false
		}
	}
	return len(phrase) > 0
}

// split turns a list of phrases, one a line or separated by semicolons, into
// token lists.
func split(list string) [][]string {
	var out [][]string
	for _, p := range strings.FieldsFunc(list, func(r rune) bool { return r == ';' || r == '\n' }) {
		if f := phrases(tokenize(p)); len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}
