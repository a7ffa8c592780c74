// Package accounts reads the guest's user and group files and builds a child's
// credential and environment from a start request (wire facts, section 9). The
// files are read for each request, never cached: an image may add users while
// it runs.
package accounts

import (
	"bytes"
	"os"
	"strconv"
	"strings"
)

// Accounts reads rows from a passwd file.
type Accounts struct {
	// PasswdPath is the passwd file; "/etc/passwd" in the daemon.
	PasswdPath string
}

// User is one row of the passwd file.
type User struct {
	Name string
	UID  uint32
	GID  uint32
	Home string
}

// ByID returns the first row with the uid. A file that cannot be read is an
// empty one.
func (a *Accounts) ByID(uid uint32) (User, bool) {
	// EXEC-39: read for each request, because an image may add users while it runs.
	data, err := os.ReadFile(a.PasswdPath)
	if err != nil {
		return User{}, false
	}
	for line := range bytes.Lines(data) {
		if u, ok := ParseUser(string(bytes.TrimSuffix(line, []byte("\n")))); ok && u.UID == uid {
			return u, true
		}
	}
	return User{}, false
}

// ParseUser reads one line: seven colon-separated fields, of which the third
// and fourth are unsigned 32-bit numbers. Blank lines and names that begin
// with '#', '+' or '-' are no rows.
func ParseUser(line string) (User, bool) {
	f := strings.Split(line, ":")
	// EXEC-41: remarks and entries of other services are no rows.
	if len(f) != 7 || f[0] == "" || strings.ContainsAny(f[0][:1], "#+-") {
		return User{}, false
	}
	uid, err := strconv.ParseUint(f[2], 10, 32)
	if err != nil {
		return User{}, false
	}
	gid, err := strconv.ParseUint(f[3], 10, 32)
	if err != nil {
		return User{}, false
	}
	return User{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5]}, true
}

// Identity returns the variables that a row gives to a child.
func (u User) Identity() map[string]string {
	return map[string]string{"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name}
}
