package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// options is what the manager's argument list says.
type options struct {
	log      *os.File // nil without --log-fd
	steps    []string
	sync     bool
	hosts    []string
	host1    *os.File // the second host, when it is a descriptor
	llm, web *os.File
	id       uint64
	perms    string
	debug    string
}

// parse reads the manager's argument list, and takes the descriptors only when
// it is one: others' descriptors are not this program's to close. The steps are whatever stands
// between "run" and the first word that begins with two dashes.
func parse(argv []string) (options, error) {
	var o options
	if len(argv) < 3 {
		return o, errors.New("the argument list is too short")
	}
	fd, ok := strings.CutPrefix(argv[1], "--log-fd=")
	if !ok || argv[2] != "run" {
		return o, fmt.Errorf("the list begins with %q, not with --log-fd=N run", argv[1])
	}
	numbers := map[**os.File]string{&o.log: fd}
	rest := argv[3:]
	for len(rest) > 0 && !strings.HasPrefix(rest[0], "--") {
		o.steps = append(o.steps, rest[0])
		rest = rest[1:]
	}
	for len(rest) > 0 {
		var err error
		if rest, err = o.flag(rest, numbers); err != nil {
			return o, err
		}
	}
	if len(o.hosts) > 1 {
		if fd, ok := strings.CutPrefix(o.hosts[1], "fd://"); ok {
			numbers[&o.host1] = fd
		}
	}
	return o, open(numbers)
}

// flag takes one flag with its value and returns what follows.
func (o *options) flag(rest []string, numbers map[**os.File]string) ([]string, error) {
	name, value, joined := strings.Cut(rest[0], "=")
	rest = rest[1:]
	if name == "--sync" {
		o.sync = true
		return rest, nil
	}
	if !joined {
		if len(rest) == 0 {
			return nil, fmt.Errorf("%q needs a value", name)
		}
		value, rest = rest[0], rest[1:]
	}
	var err error
	switch name {
	case "--host":
		o.hosts = append(o.hosts, value)
	case "--permissions":
		o.perms = value
	case "--debug-mode":
		o.debug = value
	case "--genvm-id":
		o.id, err = strconv.ParseUint(value, 10, 64)
	case "--module-llm":
		numbers[&o.llm] = strings.TrimPrefix(value, "fd://")
	case "--module-web":
		numbers[&o.web] = strings.TrimPrefix(value, "fd://")
	default:
		err = fmt.Errorf("unknown flag %q", name)
	}
	return rest, err
}

// open takes the descriptors with these numbers, or none of them.
func open(numbers map[**os.File]string) error {
	fds := map[**os.File]int{}
	for to, text := range numbers {
		fd, err := strconv.Atoi(text)
		if err != nil || fd < 3 {
			return fmt.Errorf("%q is no number of a descriptor", text)
		}
		fds[to] = fd
	}
	for to, fd := range fds {
		syscall.CloseOnExec(fd) // a forked member gets the log, which it is given, and nothing else
		*to = os.NewFile(uintptr(fd), "descriptor "+strconv.Itoa(fd))
	}
	return nil
}
