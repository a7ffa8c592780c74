// Package accounts reads the guest's user and group files, resolves whom a
// child runs as, and builds its environment from a start request (wire facts,
// section 9). The files are read for each request, never cached: an image may
// add users while it runs. They are parsed directly, so that no name service of
// the image can run in the daemon.
package accounts

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Accounts names the guest's files. It holds no state, so it is safe for
// concurrent use.
type Accounts struct {
	PasswdPath string // "/etc/passwd" in the daemon
	GroupPath  string // "/etc/group" in the daemon
}

// User is one row of the passwd file.
type User struct {
	Name string
	UID  uint32
	GID  uint32
	Home string
}

// Group is one row of the group file.
type Group struct {
	Name string
	GID  uint32
}

// maxFile bounds what is read of a file that the workload may have written.
const maxFile = 16 << 20

// readFile reads a small regular file. Anything else is an error at once: a
// FIFO in the place of a user file must not hold a start for ever.
func readFile(path string, limit int64, flags int) ([]byte, os.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular(): // ACCOUNT-10: whatever the workload put there, the start goes on
		return nil, nil, errors.New("it is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("it is longer than %d bytes", limit)
	}
	return data, info, err
}

// users reads the passwd file once, for one request. A file that cannot be
// read is an empty one. ACCOUNT-2: nothing is kept, because the rows may change
// before the next request.
func (a *Accounts) users() []User { return rows(a.PasswdPath, ParseUser) }

func (a *Accounts) groups() []Group { return rows(a.GroupPath, ParseGroup) }

func rows[R any](path string, parse func(line string) (R, bool)) (out []R) {
	data, _, err := readFile(path, maxFile, 0)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(data) {
		if row, ok := parse(string(bytes.TrimSuffix(line, []byte("\n")))); ok {
			out = append(out, row)
		}
	}
	return out
}

// first returns the first row that matches: of several rows it is the one that
// the libraries of the guest find.
func first[R any](rows []R, match func(R) bool) (row R, ok bool) {
	for _, r := range rows {
		if match(r) {
			return r, true
		}
	}
	return row, false
}

// ParseUser reads one line of the passwd file: seven colon-separated fields, of
// which the third and fourth are unsigned 32-bit numbers. Blank lines, names
// that begin with '#', '+' or '-', and lines with a NUL byte, which no
// environment can hold, are no rows.
func ParseUser(line string) (User, bool) {
	f, ok := fields(line, 7)
	if !ok {
		return User{}, false
	}
	uid, ok := number(f[2])
	if !ok {
		return User{}, false
	}
	gid, ok := number(f[3])
	if !ok {
		return User{}, false
	}
	return User{Name: f[0], UID: uid, GID: gid, Home: f[5]}, true
}

// ParseGroup reads one line of the group file: four colon-separated fields, of
// which the third is an unsigned 32-bit number. What is no row of the passwd
// file for its name is none here.
func ParseGroup(line string) (Group, bool) {
	f, ok := fields(line, 4)
	if !ok {
		return Group{}, false
	}
	gid, ok := number(f[2])
	return Group{Name: f[0], GID: gid}, ok
}

func fields(line string, n int) ([]string, bool) {
	f := strings.Split(line, ":")
	// EXEC-41: remarks and entries of other services are no rows.
	ok := len(f) == n && f[0] != "" && !strings.ContainsAny(f[0][:1], "#+-") && strings.IndexByte(line, 0) < 0
	return f, ok
}

// number reads decimal digits, and nothing else, that fit 32 bits.
func number(s string) (uint32, bool) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, false
	}
	return uint32(n), true
}

// Identity returns the variables that a row gives to a child.
func (u User) Identity() map[string]string {
	return map[string]string{"HOME": u.Home, "USER": u.Name, "LOGNAME": u.Name}
}
