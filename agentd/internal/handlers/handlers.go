// Package handlers runs the programs that an image brings for lifecycle hooks
// (wire facts, section 4.3): one at a time, within a budget that covers the
// program and its output, and before the hook is answered.
//
//	wait for the turn ─▶ start ─▶ leader exits and both pipes end ─▶ outcome
//	                       └──── the budget passes: SIGKILL to the group ──┘
//
// The leader is collected last, so its group keeps its number for as long as
// this package may signal it, and no signal can reach a stranger.
package handlers

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/accounts"
	"microvms/agentd/trace"
)

// DefaultDir is the image's directory of handlers. It is never taken from the
// environment, because its programs run as root.
const DefaultDir = "/etc/agentd/hooks.d"

// EnvHook is the variable that tells a handler which hook it runs for.
const EnvHook = "AGENTD_HOOK"

// Handled reports whether an image can bring a handler for the hook.
func Handled(hook string) bool {
	switch hook {
	case api.HookRun, api.HookSuspend, api.HookResume, api.HookTerminate:
		return true
	}
	return false // ready and validate belong to the build of the image
}

// Config says what a Runner works with. Every field but Dir is required.
type Config struct {
	Dir     string        // of the handlers; empty: there are none
	Budget  time.Duration // of one handler, its output included
	Environ []string      // the daemon's environment, in the form of os.Environ
	Clock   trace.Clock
	Waits   *execution.Waits // the one owner of waits
	Log     *slog.Logger
}

// Runner runs handlers. Its methods are safe for concurrent use.
type Runner struct {
	Config
	turn chan struct{}  // holds one token while a handler runs
	rest sync.WaitGroup // leaders that outlived their budget, until they end
}

// New returns a Runner that runs nothing yet.
func New(c Config) *Runner { return &Runner{Config: c, turn: make(chan struct{}, 1)} }

// Handler is the image's program for one hook, as it was found.
type Handler struct {
	hook, path string
	refusal    string // why it cannot run; empty: it can
}

// Find returns the handler of the hook, nil when the image has none.
func (r *Runner) Find(hook string) *Handler {
	if r.Dir == "" || !Handled(hook) {
		return nil
	}
	h := &Handler{hook: hook, path: filepath.Join(r.Dir, hook)}
	info, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// A link that leads nowhere is a handler that is broken, not none.
		if _, err := os.Lstat(h.path); err != nil {
			return nil
		}
		h.refusal = reason(err)
	case err != nil:
		h.refusal = reason(err)
	case !info.Mode().IsRegular():
		h.refusal = "not a regular file"
	case info.Mode().Perm()&0o111 == 0:
		h.refusal = "not executable" // HOOK-20: shown on the entry, because an image with a lost mode bit would fail in silence
	}
	return h
}

// reason is an error without the path that it is about.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// Acquire waits for the turn: handlers run one at a time. It returns ctx's
// error when that ends first, and otherwise the function that gives the turn
// back.
func (r *Runner) Acquire(ctx context.Context) (release func(), err error) {
	select {
	case r.turn <- struct{}{}: // HOOK-15: the image's handlers share files and services, and never expect each other
		return func() { <-r.turn }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Wait blocks until every leader that outlived its budget has ended or given
// up its wait, which the end of the context given to Run brings about.
func (r *Runner) Wait() { r.rest.Wait() }

// environment is the handler's: the daemon's, then the launch environment, then
// the hook's name. The token is in none of them.
func (r *Runner) environment(hook string, launch map[string]string) []string {
	env := map[string]string{}
	for _, entry := range r.Environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			continue
		}
		if _, twice := env[name]; !twice { // the first wins, as in getenv
			env[name] = value
		}
	}
	maps.Copy(env, launch) // HOOK-17: the launch is later than the image, and its hook's name is the daemon's word
	env[EnvHook] = hook
	return accounts.Entries(env)
}
