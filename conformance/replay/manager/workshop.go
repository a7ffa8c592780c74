package manager

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/conformance/child"
)

// Workshop is what the managers of one replay share: a directory of executors,
// which holds one name for each run, and the socket from which executors take
// their steps. Its methods are safe for concurrent use.
type Workshop struct {
	dir      string
	program  string // the demonstration executor
	children *child.Controller
	paths    atomic.Uint64
}

// NewWorkshop makes a workshop around a demonstration executor (command
// conformance/cmd/executor). Close removes it.
func NewWorkshop(program string) (*Workshop, error) {
	dir, err := os.MkdirTemp("", "executors")
	if err != nil {
		return nil, fmt.Errorf("cannot make a directory of executors: %w", err)
	}
	children, err := child.Listen()
	if err != nil {
		_ = os.RemoveAll(dir) // the reason is told, a folder that stays is not
		return nil, err
	}
	return &Workshop{dir: dir, program: program, children: children}, nil
}

// Close ends every executor that is left and removes the directory.
func (w *Workshop) Close() error { return errors.Join(w.children.Close(), os.RemoveAll(w.dir)) }

// Executors is the directory of executors.
func (w *Workshop) Executors() string { return w.dir }

// path returns a prefix for the names of a path's runs.
func (w *Workshop) path() string { return "p" + strconv.FormatUint(w.paths.Add(1), 10) }

// lay makes the executor of that name exist, or not.
func (w *Workshop) lay(name string, exists bool) error {
	file := filepath.Join(w.dir, name, "bin", "genvm")
	if !exists {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(w.program, file); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// printed is what the executor of that name prints before anything else.
func printed(name string) string { return "I am " + name + "\n" }

// request is the request of a run. Its executor prints who it is, and then takes
// steps from the workshop's socket.
func (w *Workshop) request(name string) *msp.RunRequest {
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: name}
	r.IsSync, r.DebugMode = true, msp.DebugSafe
	r.HostData, r.Host, r.Calldata = "{}", "unix:///nowhere", []byte{0}
	r.BucketTotals = []calldata.Int{}
	r.ExtraArgs = []string{"stdout=" + printed(name), "control=" + w.children.Socket() + "," + name}
	return r
}
