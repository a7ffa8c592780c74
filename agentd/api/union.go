package api

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// NameOrID is a user or a group as a start request names it: a JSON integer
// or a JSON string and nothing else. IsName tells which. On a string the
// daemon resolves the name, on an integer it takes the id as given.
type NameOrID struct {
	Name   string
	ID     uint32
	IsName bool
}

// ID returns the NameOrID of a numeric id.
func ID(id uint32) *NameOrID { return &NameOrID{ID: id} }

// Name returns the NameOrID of a name.
func Name(name string) *NameOrID { return &NameOrID{Name: name, IsName: true} }

// MarshalJSON encodes the bare integer or the bare string.
func (n NameOrID) MarshalJSON() ([]byte, error) {
	if n.IsName {
		return json.Marshal(n.Name)
	}
	return strconv.AppendUint(nil, uint64(n.ID), 10), nil
}

// UnmarshalJSON accepts an unsigned 32-bit integer or a string.
func (n *NameOrID) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*n = NameOrID{IsName: true}
		return json.Unmarshal(b, &n.Name)
	}
	id, err := strconv.ParseUint(string(b), 10, 32)
	if err != nil || (len(b) > 1 && b[0] == '0') || b[0] == '+' {
		return fmt.Errorf("cannot read user or group: want an unsigned 32-bit integer or a string")
	}
	*n = NameOrID{ID: uint32(id)}
	return nil
}

// Shell tells how a start request's command is run: false runs an argv, true
// runs a script under /bin/sh -c, a string names the shell. The zero value is
// false.
type Shell struct {
	On      bool
	Name    string
	IsNamed bool // a string was sent, possibly the empty one
}

// IsZero reports whether the shell is off, so that clients omit it.
func (s Shell) IsZero() bool { return !s.On && !s.IsNamed }

// MarshalJSON encodes the bare boolean or the bare string.
func (s Shell) MarshalJSON() ([]byte, error) {
	if s.IsNamed {
		return json.Marshal(s.Name)
	}
	return strconv.AppendBool(nil, s.On), nil
}

// UnmarshalJSON accepts a boolean or a string.
func (s *Shell) UnmarshalJSON(b []byte) error {
	switch {
	case string(b) == "true":
		*s = Shell{On: true}
	case string(b) == "false":
		*s = Shell{}
	case len(b) > 0 && b[0] == '"':
		*s = Shell{IsNamed: true}
		return json.Unmarshal(b, &s.Name)
	default:
		return fmt.Errorf("cannot read shell: want a boolean or a string")
	}
	return nil
}
