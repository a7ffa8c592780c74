package calldata

import (
	"fmt"
	"strconv"
	"strings"
)

// Fault is the class of an [Error].
type Fault uint8

// The faults, in the order of manager facts, section 1.2: first those of the
// encoding, then those of the shape that a Go type demands.
const (
	Truncated    Fault = iota + 1 // the input ends inside a value
	NotMinimal                    // a number with a needless last octet
	BadTag                        // a reserved tag or atom
	BadUTF8                       // text that is not UTF-8
	BadOrder                      // keys that do not ascend, duplicates included
	TooLarge                      // a length that does not fit 32 bits
	TooDeep                       // more than MaxDepth nested containers
	Trailing                      // bytes after the value
	MissingField                  // a required key is absent
	UnknownField                  // a key that the type does not have
	Unexpected                    // a value of another kind
	OutOfRange                    // an integer or a length that the type cannot hold
	BadVariant                    // an enum or union without that variant
	BadCount                      // a number of elements other than the one demanded
	BadText                       // a string that its type cannot read
)

var faultTexts = [...]string{
	Truncated: "unexpected end", NotMinimal: "number is not minimal", BadTag: "reserved tag", BadUTF8: "text is not UTF-8",
	BadOrder: "map keys do not ascend", TooLarge: "too large", TooDeep: "nested too deep", Trailing: "bytes after the value",
	MissingField: "missing field", UnknownField: "unknown field", Unexpected: "unexpected kind", OutOfRange: "out of range",
	BadVariant: "unknown variant", BadCount: "wrong number of elements", BadText: "unreadable text",
}

// String names the fault in lower case.
func (f Fault) String() string {
	if int(f) < len(faultTexts) && faultTexts[f] != "" {
		return faultTexts[f]
	}
	return "fault " + strconv.Itoa(int(f))
}

// Error says why a value was refused. It never holds values of the input, only
// the names of keys, shortened.
type Error struct {
	Fault  Fault
	Path   string // where in the value, such as run.message.chain_id or stack[3]; empty at the top
	Offset int    // of the offending octet in the input; -1 when encoding
	Detail string // what was expected, and the kind that was found; may be empty
}

// Error is one line, such as: calldata: run.host at byte 40: unexpected kind: want string, have null.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("calldata: ")
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteByte(' ')
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d", e.Offset)
	}
	text := strings.TrimSuffix(b.String(), " ")
	if text != "calldata:" {
		text += ":"
	}
	text += " " + e.Fault.String()
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// maxName bounds how much of a key of the input an error repeats.
const maxName = 64

// quoteKey is a key as an error shows it: identifiers bare, everything else
// quoted, long ones cut.
func quoteKey(key string) string {
	if len(key) > maxName {
		key = strings.ToValidUTF8(key[:maxName], "") + "…"
	}
	for i, c := range key {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return strconv.Quote(key)
		}
	}
	if key == "" {
		return `""`
	}
	return key
}

// inKey adds the key under which err happened to its path.
func inKey(err error, key string) error { return within(err, quoteKey(key)) }

// inElement adds the index at which err happened to its path.
func inElement(err error, i int) error { return within(err, "["+strconv.Itoa(i)+"]") }

// within puts a step in front of the path of err.
//
// CALLDATA-16: built on the way out, so that only a refusal pays for it.
func within(err error, step string) error {
	e, ok := err.(*Error) //nolint:errorlint // only the package's own goes up a path; asError saw to it
	if !ok {
		return err
	}
	if e.Path != "" && !strings.HasPrefix(e.Path, "[") {
		step += "."
	}
	e.Path = step + e.Path
	return e
}
