// Package httpapi is the daemon's HTTP front: transport rules, authorization,
// routes and their handlers (wire facts, sections 1 to 9). It decides nothing
// about commands: that is agentd/execution.
package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/internal/accounts"
	"microvms/agentd/internal/files"
	"microvms/agentd/internal/handlers"
	"microvms/agentd/internal/hooks"
	"microvms/agentd/internal/identity"
	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
)

// Config wires a Server. Every field but Recorder and Gate is required.
type Config struct {
	Version  string
	Log      *slog.Logger
	Clock    trace.Clock
	Recorder trace.Recorder // nil: none
	Gate     trace.Gate     // nil: none
	Limits   limits.Limits  // with defaults
	Boot     *hooks.Bootstrap
	Registry *execution.Registry
	Accounts *accounts.Accounts
	ImageEnv map[string]string // the image snapshot; never written

	DefaultUser accounts.Default // whom a start without a user runs as

	Handlers    *handlers.Runner
	Identity    *identity.Machine // nil: identity repair is off
	PowerOff    func() error      // nil: the daemon cannot
	MayPowerOff func() bool       // whether PowerOff would be allowed
}

// Server serves wire version 1 on listeners. Its methods are safe for
// concurrent use.
type Server struct {
	config Config
	limits limits.Limits
	log    *slog.Logger
	routes []route
	mux    *chi.Mux
	http   *http.Server
	serial atomic.Uint64
	schema []byte
	disk   *files.Reserve
	repair atomic.Pointer[[]api.IdentityStep] // what identity repair did; nil: it did not run

	base context.Context // ends when the daemon does
	end  context.CancelFunc

	mu        sync.Mutex
	listeners map[*admission]struct{}
	stopping  bool
	tunnels   sync.WaitGroup // tunnels and power-off watches; grows only while not stopping
}

// New returns a Server that serves nothing yet.
func New(c Config) *Server {
	s := &Server{config: c, limits: c.Limits, log: c.Log, listeners: map[*admission]struct{}{}}
	s.disk = &files.Reserve{Bytes: uint64(c.Limits.DiskReserveBytes)}
	s.base, s.end = context.WithCancel(context.Background())
	s.routes = s.table()
	s.mux = s.router()
	s.schema = s.describe()
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: c.Limits.HeaderTimeout,
		IdleTimeout:       c.Limits.HeaderTimeout,
		ErrorLog:          slog.NewLogLogger(quiet{c.Log.Handler()}, slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return s.base },
		ConnContext: func(ctx context.Context, nc net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, nc)
		},
		ConnState: func(nc net.Conn, state http.ConnState) {
			c, ok := nc.(*conn)
			switch {
			case ok && state == http.StateActive:
				c.headerRead()
			case ok && state == http.StateIdle:
				c.beginWaiting()
			}
		},
		// OPTIONS * reaches the handler, so that its answer carries the
		// version header too.
		DisableGeneralOptionsHandler: true,
	}
	return s
}

// Serve accepts connections from l until Shutdown. It returns nil after a
// shutdown and closes l in any case.
func (s *Server) Serve(l net.Listener) error {
	a := newAdmission(l, s.limits, s.config.Version, s.config.Clock, s.log.Debug)
	a.recorder = s.config.Recorder
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		l.Close()
		return nil
	}
	s.listeners[a] = struct{}{}
	s.mu.Unlock()
	err := s.http.Serve(a)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	delete(s.listeners, a)
	return err
}

// Shutdown stops accepting, lets requests in flight finish until ctx ends or
// the shutdown grace has passed, and then cuts what is left: output streams
// that still wait, mostly. Commands are not touched.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for a := range s.listeners {
		_ = a.Close() // connections that ask nothing included: net/http would wait for them
	}
	s.mu.Unlock()
	grace, cancel := context.WithTimeout(ctx, s.limits.ShutdownGrace)
	defer cancel()
	// XPORT-16: what is in flight is owed its answer, within the grace.
	err := s.http.Shutdown(grace)
	s.end()
	s.tunnels.Wait() // the end of the daemon's context has cut them
	s.config.Handlers.Wait()
	if err == nil {
		return nil
	}
	// PROG-13: requests alone end here: no command is signalled.
	// PROG-14: cut, because its command goes on and has no exit to tell.
	// XPORT-28: a stream may never end by itself.
	_ = s.http.Close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// quiet hands on that net/http had something to say, and how much, but not
// the text: it may quote bytes of a peer.
type quiet struct{ slog.Handler }

func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	// PROG-11: the length and not the text, which may quote the peer.
	out := slog.NewRecord(r.Time, r.Level, "net/http reported a connection error", r.PC)
	out.AddAttrs(slog.Int("bytes", len(r.Message)))
	return q.Handler.Handle(ctx, out)
}

// seconds returns a moment as whole seconds since the epoch.
func seconds(t time.Time) uint64 { return uint64(max(t.Unix(), 0)) }
