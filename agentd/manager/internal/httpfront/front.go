// Package httpfront serves the manager's HTTP routes: the admin endpoints and
// the deprecated run flow (manager facts, section 7), over the same run table as
// the socket. It decides nothing about runs: that is package runs.
package httpfront

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-chi/chi/v5"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/executor"
	"microvms/agentd/manager/internal/origin"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// Bounds of a request.
const (
	// MaxJSONBytes bounds the JSON bodies; above: 413.
	MaxJSONBytes = 1 << 20
	// HeaderTimeout bounds the wait for a whole header section; after: closed.
	HeaderTimeout = 10 * time.Second
	// DefaultBodyTimeout bounds the wait for a whole body; after: 408.
	DefaultBodyTimeout = time.Minute
	// MaxWait bounds the parameter wait of the deprecated flow.
	MaxWait = 2 * time.Minute
)

// Modules is what the routes ask of the modules. *executor.Modules is one.
type Modules interface {
	Start(ctx context.Context, t executor.ModuleType, config []byte) error
	Stop(ctx context.Context, t executor.ModuleType) (ran bool, err error)
	State(t executor.ModuleType) executor.ModuleState
}

// Table is what the routes ask of the run table. *runs.Table is one.
type Table interface {
	Run(ctx context.Context, s runs.Spec, sub runs.Subscriber, reply func(runs.ID)) error
	Wait(ctx context.Context, id runs.ID, until func(runs.Event) bool) (runs.Event, error)
	Cancel(ctx context.Context, id runs.ID) error
	Ack(ctx context.Context, id runs.ID) error
	Artifact(ctx context.Context, id runs.ID, field runs.Field, offset uint64, limit uint32) (total uint64, data []byte, err error)
	Status() []runs.Status
	Permits() (total, free int)
	SetPermits(ctx context.Context, n int) error
}

// Config wires a Front.
type Config struct {
	Log    *slog.Logger // required
	Clock  trace.Clock  // required: of the parameter wait
	Socket http.Handler // of /ws; required
	Table  Table        // required; ADMIN-5: the one that the socket has, for one life of a run
	// Spec makes the table's specification of a run request; its error refuses
	// the request. Required.
	Spec    func(*msp.RunRequest) (runs.Spec, error)
	Modules Modules // required

	SyncCost, NondetCost int // permits of a run without and with modules

	// SetLevel changes the level of the manager's log; nil: it cannot be changed.
	SetLevel func(slog.Level)
	// ReloadManifest reads the manifest again; nil: there is none.
	ReloadManifest func() error
	// DetectVersion finds the major version that a contract's code asks for;
	// nil: nothing that could find it is configured.
	DetectVersion func(ctx context.Context, code []byte, at time.Time) (uint32, error)
	// CheckLLM has the LLM module check providers, as JSON in and out; nil: no
	// module that could is configured.
	CheckLLM func(ctx context.Context, request json.RawMessage) (json.RawMessage, error)
	// VMErrors describes errors of the virtual machine; others are described by
	// null.
	VMErrors map[string]string

	// BodyTimeout bounds the wait for a whole body, by the system's clock; default
	// DefaultBodyTimeout.
	BodyTimeout time.Duration
	// MaxMessageBytes bounds the body of a run request and a contract's code;
	// default msp.MaxMessageBytes. Above: 413.
	MaxMessageBytes int64
}

// Front serves the routes. It is safe for concurrent use.
type Front struct {
	Config
	mux *chi.Mux

	// base ends when requests that still wait are given up.
	base context.Context
	end  context.CancelFunc
}

// New returns a Front. Release it with Close.
func New(c Config) *Front {
	c.MaxMessageBytes = cmp.Or(c.MaxMessageBytes, msp.MaxMessageBytes)
	c.BodyTimeout = cmp.Or(c.BodyTimeout, DefaultBodyTimeout)
	f := &Front{Config: c, mux: chi.NewMux()}
	f.base, f.end = context.WithCancel(context.Background())
	notFound := func(w http.ResponseWriter, _ *http.Request) { refuse(w, http.StatusNotFound, "Not Found") }
	f.mux.NotFound(notFound)
	// ADMIN-1: a wrong method is a route that there is not, as clients expect.
	f.mux.MethodNotAllowed(notFound)
	f.mux.Method("GET", msp.Path, c.Socket)
	for _, r := range []struct {
		method, path string
		serve        func(*Front, http.ResponseWriter, *http.Request) error
	}{
		{"GET", "/status", (*Front).status},
		{"GET", "/permits", (*Front).permits},
		{"POST", "/permits", (*Front).setPermits},
		{"POST", "/module/start", (*Front).startModule},
		{"POST", "/module/restart", (*Front).restartModule},
		{"POST", "/module/stop", (*Front).stopModule},
		{"POST", "/log/level", (*Front).setLevel},
		{"POST", "/manifest/reload", (*Front).reloadManifest},
		{"POST", "/contract/detect-version", (*Front).detectVersion},
		{"POST", "/llm/check", (*Front).checkLLM},
		{"GET", "/vm-error/describe", (*Front).describeError},
		{"POST", "/genvm/run", (*Front).run},
		{"GET", "/genvm/{id}", (*Front).result},
		{"DELETE", "/genvm/{id}", (*Front).cancel},
		{"GET", "/genvm/{id}/artifact", (*Front).artifact},
	} {
		f.mux.MethodFunc(r.method, r.path, f.entry(r.serve))
	}
	return f
}

// Close gives up the requests that still wait.
func (f *Front) Close() { f.end() }

// ServeHTTP serves one request.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		control := http.NewResponseController(w)
		// Without full duplex net/http reads a body to its end before it answers; with
		// it, behind the answer. ADMIN-9: in both cases no longer than this.
		_ = control.EnableFullDuplex()
		_ = control.SetReadDeadline(time.Now().Add(f.BodyTimeout))
		w.Header().Set("Connection", "close") // unless the body is read
	}
	if reason := origin.Refusal(r); reason != "" {
		refuse(w, http.StatusForbidden, reason) // ADMIN-3
		return
	}
	f.mux.ServeHTTP(w, r)
}

// entry turns a route's error into its answer, and a panic into a 500.
func (f *Front) entry(serve func(*Front, http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				// ADMIN-7: with the stack, which names places only.
				f.Log.Error("request handler panicked", "path", r.URL.Path, "stack", string(debug.Stack()))
				refuse(w, http.StatusInternalServerError, "the manager has a defect")
			}
		}()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(f.base, cancel)()
		if err := serve(f, w, r.WithContext(ctx)); err != nil {
			status := statusOf(err)
			f.Log.Debug("request refused", "path", r.URL.Path, "status", status)
			refuse(w, status, err.Error())
		}
	}
}
