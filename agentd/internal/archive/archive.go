// Package archive unpacks and packs tar archives below one folder (wire facts,
// sections 11.4 and 11.5). Names come from the archive, not from the caller, so
// they are held to rules of their own: lexical ones before anything is placed,
// and the kernel's own confinement, openat2, while members are placed.
//
// An upload goes through three steps. Spool takes the body to an unlinked file.
// Judge reads every header, strictly, with archive/tar as second opinion, and
// refuses the whole archive before anything is placed. Extract places member
// after member. It is not transactional: what was placed before a failure stays.
package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
)

// Kind says whose fault a refusal is and so which status it gets.
type Kind int

// The kinds of refusal.
const (
	Unsafe  Kind = iota // a member breaks a rule of confinement: 400
	TooMuch             // more members or bytes than the caps allow: 413
	Broken              // no tar, cut short, contradictory, or failed in the file system: 500
	BadRoot             // the folder named by the caller cannot be the root: 400
	Absent              // the folder to pack does not exist: 404
)

// Refusal is the error of this package, except for *files.FullError and errors
// of a context or gate, which come as they are.
type Refusal struct {
	Kind   Kind
	Member string // name as it stands in the archive; empty where no member is at fault
	Reason string
	Bytes  bool  // the bytes of the archive are at fault, so that they are refused again
	Err    error // cause, nil where the reason is all
}

// Error returns one line of printable ASCII, whatever bytes the name holds.
func (r *Refusal) Error() string {
	text := r.Reason
	if r.Member != "" {
		text = "member " + quote(r.Member) + ": " + text
	}
	if r.Err != nil {
		text += ": " + r.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// maxQuoted bounds the bytes of a name that an error repeats.
const maxQuoted = 512

func quote(name string) string {
	if len(name) <= maxQuoted {
		return strconv.QuoteToASCII(name)
	}
	return strconv.QuoteToASCII(name[:maxQuoted]) + fmt.Sprintf(" and %d more bytes", len(name)-maxQuoted)
}

func broken(format string, args ...any) *Refusal {
	return &Refusal{Kind: Broken, Reason: fmt.Sprintf(format, args...)}
}

// ofBytes marks what Judge found in the bytes, and not in reading them.
func ofBytes(err error) error {
	var (
		r    *Refusal
		read *fs.PathError
	)
	if errors.As(err, &r) && !errors.As(err, &read) {
		marked := *r
		marked.Bytes = true
		return &marked
	}
	return err
}

// about names the member that an error is about, unless it names one already or
// is not of this package.
func about(member string, err error) error {
	var r *Refusal
	if errors.As(err, &r) && r.Member == "" {
		named := *r
		named.Member = member
		return &named
	}
	return err
}

// Limits are the caps on an archive, inclusive.
type Limits struct {
	Members int   // extension headers are not members
	Bytes   int64 // declared data bytes of all members
}
