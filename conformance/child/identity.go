package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// Identity is what a child was started as, as it sees that itself. A child asked
// for it prints it as JSON and exits.
type Identity struct {
	UID    int      `json:"uid"`
	GID    int      `json:"gid"`
	Groups []int    `json:"groups"` // supplementary, ascending
	Env    []string `json:"env"`    // NAME=value, as it is
	// Shell is the program that the daemon executed to run the child as a script;
	// "-" when it executed the child itself.
	Shell string `json:"shell"`
}

// The argument that asks for an identity. After the colon a script puts the name
// of the shell that runs it.
const askIdentity = "identity:"

// IdentityCommand returns the command line that starts program, a copy of a
// program that calls RunIfAsked, as a child that prints its identity.
func IdentityCommand(program string) []string { return []string{program, Marker, askIdentity + "-"} }

// IdentityScript returns a script that does the same under any shell. The
// program can also stand in for the shell itself: run as PROGRAM -c SCRIPT it
// prints its identity, and the name that it was run by as the shell's.
func IdentityScript(program string) string {
	return fmt.Sprintf(`exec '%s' %s "%s$0"`, program, Marker, askIdentity)
}

// ParseIdentity reads what such a child printed.
func ParseIdentity(output string) (*Identity, error) {
	var i Identity
	if err := json.Unmarshal([]byte(output), &i); err != nil {
		return nil, fmt.Errorf("cannot read a child's identity from %d bytes of output: %w", len(output), err)
	}
	return &i, nil
}

// identify prints the identity when the arguments ask for it, and reports
// whether they do.
func identify(args []string) (bool, error) {
	if len(args) != 3 {
		return false, nil
	}
	shell, asked := strings.CutPrefix(args[2], askIdentity)
	switch {
	case args[1] == Marker && asked:
	case args[1] == "-c" && strings.HasSuffix(args[2], " "+Marker+` "`+askIdentity+`$0"`):
		shell = args[0]
	default:
		return false, nil
	}
	groups, err := os.Getgroups()
	if err != nil {
		return true, err
	}
	slices.Sort(groups)
	i := Identity{UID: os.Getuid(), GID: os.Getgid(), Groups: groups, Env: os.Environ(), Shell: shell}
	if i.UID != os.Geteuid() || i.GID != os.Getegid() {
		return true, errors.New("the real and the effective ids differ")
	}
	return true, json.NewEncoder(os.Stdout).Encode(i)
}
