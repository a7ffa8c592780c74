package execstart

import (
	"fmt"
	"strings"
)

// User is what a request says of its user.
type User uint8

// The shapes of a user that the rule tells apart.
const (
	UserAbsent      User = iota
	UserID               // an integer that is the uid of a row
	UserIDNoRow          // an integer without a row
	UserNamed            // a name, whose row may come and go
	UserUnknown          // a name without a row
	UserDigitsName       // digits that are the name of a row
	UserDigits           // digits that are no name, and the uid of a row
	UserDigitsNoRow      // digits without any row
	users
)

var userNames = [users]string{"absent", "id", "id-without-row", "name", "unknown-name", "digits-as-name", "digits", "digits-without-row"}

// String returns the shape as a word.
func (u User) String() string { return userNames[u] }

// Group is what a request says of its group.
type Group uint8

// The shapes of a group.
const (
	GroupAbsent Group = iota
	GroupID
	GroupNamed   // a name, whose row may come and go
	GroupUnknown // a name without a row
	GroupDigits  // digits that are no name
	groups
)

var groupNames = [groups]string{"absent", "id", "name", "unknown-name", "digits"}

// String returns the shape as a word.
func (g Group) String() string { return groupNames[g] }

// Shell is what a request says of its shell.
type Shell uint8

// The shapes of a shell. The folders are those of the PATH of the request, of
// the launch environment and of the image.
const (
	ShellOff      Shell = iota
	ShellOn             // true
	ShellAnywhere       // a name that is in all three folders
	ShellRequest        // a name that is in the request's folder only
	ShellImage          // a name that is in the image's folder only
	ShellSystem         // a name that is in /bin only
	ShellMissing        // a name that is nowhere
	ShellAbsolute       // the absolute path of an executable file
	ShellRelative       // a relative path that leads to one
	shells
)

var shellNames = [shells]string{"off", "on", "in-all-paths", "in-request-path", "in-image-path", "in-bin", "missing", "absolute-path", "relative-path"}

// String returns the shape as a word.
func (s Shell) String() string { return shellNames[s] }

// Flags are the further facts of a request or, for the last two, of a launch.
type Flags uint8

// The flags.
const (
	FlagInherit Flags = 1 << iota // inherit_image_env
	FlagHome                      // its environment sets HOME
	FlagPath                      // its environment sets PATH
	flags       = 8
)

// AllFlags returns every combination, in a fresh slice.
func AllFlags() []Flags {
	out := make([]Flags, flags)
	for i := range out {
		out[i] = Flags(i)
	}
	return out
}

// String returns the flags joined by plus signs; "none" for none.
func (f Flags) String() string {
	var words []string
	for i, w := range []string{"inherit", "home", "path"} {
		if f&(1<<i) != 0 {
			words = append(words, w)
		}
	}
	if words == nil {
		return "none"
	}
	return strings.Join(words, "+")
}

func flagNames() []string {
	var out []string
	for _, f := range AllFlags() {
		out = append(out, f.String())
	}
	return out
}

// Request is what a start request says.
type Request struct {
	User  User
	Group Group
	Shell Shell
	Flags Flags
}

// String renders the request in words.
func (r Request) String() string {
	return fmt.Sprintf("user=%s group=%s shell=%s flags=%s", r.User, r.Group, r.Shell, r.Flags)
}

// env is the request's own environment, or a launch environment.
func (f Flags) env(source Source) Env {
	var e Env
	if f&FlagHome != 0 {
		e[Home] = source
	}
	if f&FlagPath != 0 {
		e[Path] = source
	}
	return e
}

// DefaultUser is what AGENTD_DEFAULT_USER says.
type DefaultUser uint8

// The shapes of a default user.
const (
	DefaultUnset       DefaultUser = iota
	DefaultNamed                   // a name, whose row may come and go
	DefaultDigits                  // digits that are no name, and the uid of a row
	DefaultDigitsNoRow             // digits without any row
	DefaultUnknown                 // a name without a row
	DefaultEmpty                   // set, but empty
)

var defaultNames = [...]string{"unset", "name", "digits", "digits-without-row", "unknown-name", "empty"}

// Record is what the image sealed of its own user, where it asks for that.
type Record uint8

// The shapes of a record.
const (
	RecordOff    Record = iota // AGENTD_PRESERVE_IMAGE_USER is not set
	RecordRow                  // a uid with a row
	RecordNoRow                // a uid without a row
	RecordBroken               // it cannot be used
)

var recordNames = [...]string{"off", "with-row", "without-row", "broken"}

// Image is what the image says of the user of starts without one.
type Image struct {
	Default DefaultUser
	Record  Record
}

// String renders the image in words.
func (i Image) String() string {
	return "default=" + defaultNames[i.Default] + " record=" + recordNames[i.Record]
}

// Row is a row of the guest's files that may come and go.
type Row uint8

// The rows.
const (
	NamedUserRow   Row = iota // of UserNamed
	NamedGroupRow             // of GroupNamed
	DefaultUserRow            // of DefaultNamed
	rowsCount
)

var rowNames = [rowsCount]string{"user", "group", "default-user"}

// Rows is a set of rows.
type Rows uint8

// AllRows holds every row: the files as the image brings them.
const AllRows Rows = 1<<rowsCount - 1

// Has reports whether the row is there.
func (r Rows) Has(row Row) bool { return r&(1<<row) != 0 }

// String lists the rows that are there.
func (r Rows) String() string {
	var words []string
	for i, w := range rowNames {
		if r.Has(Row(i)) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ",")
}

// UID is where a child's user id comes from.
type UID uint8

// The origins of a user id.
const (
	UIDDaemon    UID = iota
	UIDRequested     // the number in the request
	UIDRow           // the row of the name in the request
	UIDDefault       // the row of the default user
	UIDRecord        // the sealed record
)

var uidNames = [...]string{"daemon", "requested", "row", "default", "record"}

// String returns the origin as a word.
func (u UID) String() string { return uidNames[u] }

// GID is where a child's group id comes from.
type GID uint8

// The origins of a group id.
const (
	GIDDaemon     GID = iota
	GIDRequested      // the number in the request
	GIDPrimary        // the primary group of the user's row
	GIDRow            // the row of the group's name in the request
	GIDDefaultRow     // the primary group of the default user's row
	GIDRecord         // the sealed record
)

var gidNames = [...]string{"daemon", "requested", "row-primary", "group-row", "default-primary", "record"}

// String returns the origin as a word.
func (g GID) String() string { return gidNames[g] }

// Program is what a child executes.
type Program uint8

// The programs.
const (
	ProgramArgv        Program = iota // the command's own first word
	ProgramBinSh                      // /bin/sh, for the shell true
	ProgramRequestPath                // the shell found on the request's PATH
	ProgramLaunchPath                 // the shell found on the launch environment's PATH
	ProgramImagePath                  // the shell found on the image's PATH
	ProgramSystem                     // the shell found in /bin
	ProgramAbsolute                   // the shell at the absolute path
	ProgramRelative                   // the shell at the relative path
)

var programNames = [...]string{"argv", "bin-sh", "request-path", "launch-path", "image-path", "in-bin", "absolute-path", "relative-path"}

// String returns the program as a word.
func (p Program) String() string { return programNames[p] }
