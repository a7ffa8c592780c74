package execution

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// process is what /proc/<pid>/stat says of a process, as far as the core asks
// (proc_pid_stat(5)).
type process struct {
	pid     int
	state   byte   // field 3
	ppid    int    // field 4
	pgrp    int    // field 5
	session int    // field 6
	threads int    // field 20
	start   uint64 // field 22: clock ticks after boot
}

// errStat is wrapped by errors about a stat line that cannot be read.
var errStat = errors.New("malformed stat line")

// parseStat reads the line of /proc/<pid>/stat. The name, field 2, stands in
// parentheses and may itself hold parentheses, spaces and newlines, so the
// fields are counted from the last ")".
func parseStat(line []byte) (process, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 2 || end < open || line[open-1] != ' ' {
		return process{}, errStat
	}
	var p process
	var err error
	if p.pid, err = decimal(line[:open-1]); err != nil || p.pid <= 0 {
		return process{}, errStat
	}
	rest := line[end+1:]
	for field := 3; field <= 22; field++ {
		if len(rest) < 2 || rest[0] != ' ' {
			return process{}, errStat
		}
		rest = rest[1:]
		word := rest
		if i := bytes.IndexAny(rest, " \n"); i >= 0 {
			word = rest[:i]
		}
		rest = rest[len(word):]
		switch field {
		case 3:
			if len(word) != 1 {
				return process{}, errStat
			}
			p.state = word[0]
		case 4:
			p.ppid, err = decimal(word)
		case 5:
			p.pgrp, err = decimal(word)
		case 6:
			p.session, err = decimal(word)
		case 20:
			p.threads, err = decimal(word)
		case 22:
			p.start, err = strconv.ParseUint(string(word), 10, 64)
		}
		if err != nil {
			return process{}, errStat
		}
	}
	return p, nil
}

// decimal reads a number that the kernel printed; -1 occurs (tpgid, and pgrp
// of a process that is being released).
func decimal(b []byte) (int, error) {
	n, err := strconv.ParseInt(string(b), 10, 32)
	return int(n), err
}

// procReader is the process table. Tests put their own in its place.
type procReader interface {
	// pids returns the process ids in ascending order.
	pids() ([]int, error)
	// stat returns fs.ErrNotExist when there is no such process.
	stat(pid int) (process, error)
	// liveThread says whether a thread of the process other than a zombie runs.
	liveThread(pid int) bool
	// threads is liveThread with its error, for those who must know.
	threads(pid int) (live bool, err error)
}

// procFS is the procReader of a mounted proc file system.
type procFS struct{ root string }

func (p procFS) pids() ([]int, error) { return p.numbers(p.root) }

// numbers lists the directory's entries that are numbers.
func (p procFS) numbers(dir string) ([]int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	buf := make([]byte, 16384)
	names := make([]string, 0, 256)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
	numbers := make([]int, 0, len(names))
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

func (p procFS) stat(pid int) (process, error) {
	return p.read(p.root + "/" + strconv.Itoa(pid) + "/stat")
}

func (p procFS) read(path string) (process, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return process{}, absent(err)
	}
	defer unix.Close(fd)
	var buf [1024]byte // a stat line is 52 fields of at most 20 digits, and a name of 64 bytes
	n, err := unix.Read(fd, buf[:])
	if err != nil {
		return process{}, absent(err)
	}
	return parseStat(buf[:n])
}

// absent turns the errnos of a vanished process into fs.ErrNotExist.
func absent(err error) error {
	if err == unix.ENOENT || err == unix.ESRCH {
		return fs.ErrNotExist
	}
	return err
}

func (p procFS) liveThread(pid int) bool {
	live, err := p.threads(pid)
	return live && err == nil
}

func (p procFS) threads(pid int) (bool, error) {
	dir := p.root + "/" + strconv.Itoa(pid) + "/task"
	tids, err := p.numbers(dir)
	if err != nil {
		return false, absent(err)
	}
	for _, tid := range tids {
		t, err := p.read(dir + "/" + strconv.Itoa(tid) + "/stat")
		switch {
		case errors.Is(err, fs.ErrNotExist): // it ended meanwhile
		case err != nil:
			return false, err
		case !t.dead():
			return true, nil
		}
	}
	return false, nil
}

// dead says whether the state is that of a zombie or of a process past it.
func (p process) dead() bool { return p.state == 'Z' || p.state == 'X' || p.state == 'x' }

// live says whether the process can still act: it is no zombie, or it is a
// zombie leader whose other threads run on (wire facts, sections 8 and 13).
func (p process) live(table procReader) bool {
	// KILL-7, KILL-8: a zombie may still have a thread that acts.
	return !p.dead() || p.threads > 1 && table.liveThread(p.pid)
}
