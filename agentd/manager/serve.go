package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/httpfront"
	"microvms/agentd/manager/internal/runs"
)

// spec makes the table's specification of a run request. It refuses a run that
// needs modules while they do not run.
func (m *Manager) spec(r *msp.RunRequest) (runs.Spec, error) {
	if err := m.launcher.ModulesMissing(r); err != nil && !m.knows(r.Token) {
		// ADMIN-32: after the token, because a repeat starts nothing and needs no modules.
		return runs.Spec{}, err
	}
	s := runs.Spec{
		Token: r.Token, Permits: m.config.SyncCost, Deadline: deadline(r),
		Prepare: func(ctx context.Context, id runs.ID) (*runs.Prepared, error) { return m.launcher.Prepare(ctx, id, r) },
	}
	if r.NeedsModules() {
		s.Permits = m.config.NondetCost
	}
	return s, nil
}

// deadline is the span after which the run is stopped; the table caps it.
func deadline(r *msp.RunRequest) time.Duration {
	if r.Deadline != nil {
		return r.Deadline.Std()
	}
	return time.Duration(min(r.MaxExecutionMinutes, msp.MaxExecutionMinutes)) * time.Minute
}

// knows reports whether a run with that token is known.
func (m *Manager) knows(token *string) bool {
	if token == nil {
		return false
	}
	for _, s := range m.table.Status() {
		if s.Token != nil && *s.Token == *token {
			return true
		}
	}
	return false
}

// server returns the HTTP server of all listeners.
func (m *Manager) server() *http.Server {
	return &http.Server{
		Handler: m.front,
		// SOCKET-32: by the server, so that the head of an upgrade has a bound, too.
		ReadHeaderTimeout: httpfront.HeaderTimeout,
		IdleTimeout:       2 * time.Minute,
		// What net/http has to say may quote a peer.
		ErrorLog: slog.NewLogLogger(quiet{m.config.Log.Handler()}, slog.LevelDebug),
	}
}

// quiet hands on that net/http had something to say, but not the text: it may
// quote bytes of a peer.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	out := slog.NewRecord(r.Time, r.Level, "net/http reported a connection error", r.PC)
	out.AddAttrs(slog.Int("bytes", len(r.Message)))
	return q.Handler.Handle(ctx, out)
}

// Serve accepts connections from l until ctx ends or Shutdown is called, and
// returns nil once that shutdown is complete. It closes l in any case.
func (m *Manager) Serve(ctx context.Context, l net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = m.Shutdown(context.Background()) })()
	m.mu.Lock()
	if m.stopping {
		m.mu.Unlock()
		l.Close()
		<-m.done
		return nil
	}
	m.listeners[l] = struct{}{}
	m.mu.Unlock()
	err := m.http.Serve(l)
	m.mu.Lock()
	stopping := m.stopping
	delete(m.listeners, l)
	m.mu.Unlock()
	if !stopping && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("cannot serve on %q: %w", l.Addr(), err)
	}
	<-m.done
	return nil
}

// Shutdown ends the manager in this order: nothing is accepted any more; every
// run ends with the cause shutdown and its executor is killed; connections get
// the terminal events, and then a close frame; what is left is cut. Each of the
// two waits ends with ctx or after Config.ShutdownWait. Every call returns after
// the one shutdown is complete, with its error.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.stop.Do(func() {
		defer close(m.done)
		m.err = m.shutdown(ctx)
	})
	<-m.done
	return m.err
}

func (m *Manager) shutdown(ctx context.Context) error {
	m.mu.Lock()
	m.stopping = true
	// ADMIN-33: first nobody comes in, so that what is ended next is all there is.
	for l := range m.listeners {
		l.Close()
	}
	m.mu.Unlock()
	m.sockets.Stop()
	// MGR-24: the runs before the connections, so that their ends have somewhere to go.
	errs := []error{m.within(ctx, m.table.Shutdown)}
	// SOCKET-24: the terminal events are queued; now they leave.
	errs = append(errs, m.within(ctx, m.sockets.Shutdown))
	m.front.Close()
	err := m.within(ctx, m.http.Shutdown)
	if errors.Is(err, net.ErrClosed) {
		err = nil // whether the server still held a listener that is closed already is a race with Serve
	}
	errs = append(errs, err)
	_ = m.http.Close() // requests that did not end within the bound
	errs = append(errs, m.release(ctx))
	return errors.Join(errs...)
}

// within runs one step of the shutdown within its bound. A bound reached is
// what it is for, and an error only if ctx set it.
func (m *Manager) within(ctx context.Context, step func(context.Context) error) error {
	// ADMIN-34: for each step anew, so that runs that take their time leave some for
	// the delivery of their endings.
	bounded, cancel := context.WithTimeout(ctx, m.config.ShutdownWait)
	defer cancel()
	err := step(bounded)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		m.config.Log.Warn("a step of the shutdown was cut short", "err", err)
		return nil
	}
	return err
}

// release ends executors and modules once no run is left.
func (m *Manager) release(ctx context.Context) error {
	return errors.Join(m.within(ctx, m.launcher.Close), m.within(ctx, m.modules.Close))
}
