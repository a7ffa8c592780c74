package microvmtest

import (
	"context"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
)

// Program is what a command does. It runs in its own goroutine; the command
// ends when it returns, or at a signal that it did not trap.
type Program func(p *Process) Exit

// Exit is how a program ends: with a code, or as if by a signal when Signal is
// not 0.
type Exit struct {
	Code, Signal int
	// WritersMayBeAlive says that another process still holds the output open.
	WritersMayBeAlive bool
}

// Process is a program's view of its command.
type Process struct {
	Args   []string // the program's name first
	Script string   // of a shell command
	Env    map[string]string
	Dir    string
	Stdin  io.Reader // ends at once when the command has no input
	Stdout io.Writer
	Stderr io.Writer
	// Context ends when the command is signalled or has ended. A program that
	// blocks must return then.
	Context context.Context

	traps atomic.Bool
	term  chan struct{}
}

// Trap makes the command survive SIGTERM, as a handler would: Context does not
// end then, Terminated does. SIGKILL after the grace ends it anyway.
func (p *Process) Trap() { p.traps.Store(true) }

// Terminated is closed at the first SIGTERM.
func (p *Process) Terminated() <-chan struct{} { return p.term }

// Programs returns a fresh map with true, false, echo, cat and sh. Its sh knows
// "exit N" and scripts of one word-split line that name another program of the
// map.
func Programs() map[string]Program {
	m := map[string]Program{
		"true":  func(*Process) Exit { return Exit{} },
		"false": func(*Process) Exit { return Exit{Code: 1} },
		"echo": func(p *Process) Exit {
			fmt.Fprintln(p.Stdout, strings.Join(p.Args[1:], " "))
			return Exit{}
		},
		"cat": func(p *Process) Exit {
			_, _ = io.Copy(p.Stdout, p.Stdin)
			return Exit{}
		},
	}
	programs := maps.Clone(m)
	m["sh"] = func(p *Process) Exit {
		words := strings.Fields(p.Script)
		switch {
		case len(words) == 0:
			return Exit{}
		case words[0] == "exit" && len(words) == 2:
			code, err := strconv.Atoi(words[1])
			if err != nil {
				return Exit{Code: 2}
			}
			return Exit{Code: code}
		case programs[words[0]] == nil:
			fmt.Fprintf(p.Stderr, "sh: %s: not found\n", words[0])
			return Exit{Code: 127}
		}
		p.Args = words
		return programs[words[0]](p)
	}
	return m
}
