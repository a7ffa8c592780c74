package manager

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/trace"
	"microvms/conformance/replay"
)

// Manager is a running manager that a driver drives.
type Manager struct {
	Network, Address string // "unix", a path; or "tcp", host and port
	Recorder         *replay.Recorder
	Gate             *replay.Gate   // nil: nothing holds it
	Timers           *replay.Timers // nil: its time passes
	// Deadline is what each run asks for where time passes; 0: more than a test lasts.
	Deadline time.Duration

	// Stop asks for a shutdown and returns at once; Wait waits for the end of what
	// Stop or Kill began and frees what the manager held.
	Stop func()
	// Kill ends the manager without a word, as far as that can be had.
	Kill func()
	Wait func(ctx context.Context) error
}

// Options are what a driver asks of a manager.
type Options struct {
	Executors string
	// Hold selects the points at which the manager is parked; nil means none.
	Hold func(p trace.Point) bool
	// Permits is the pool, when it is more than one permit: a run with modules then
	// takes all of it, and the modules can be started.
	Permits int
	// MaxMessageBytes is the bound of a client's message; 0 means the default.
	MaxMessageBytes int
	// Retention is that of a manager whose time passes; 0: more than a test lasts.
	Retention time.Duration
}

// Starter starts a fresh manager. A run without modules costs one permit.
type Starter func(ctx context.Context, o Options) (*Manager, error)

// The spans of a manager with timers that the driver fires. They differ, so that
// a timer is known by its span; the deadline of run i is SpanDeadline and i
// minutes.
const (
	SpanDeadline  = 10 * time.Hour
	SpanRetention = 2 * time.Hour
	SpanLinger    = time.Hour
)

// client returns an HTTP client of the manager's listener.
func (m *Manager) client() *http.Client {
	var d net.Dialer
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, m.Network, m.Address)
		},
	}}
}

// dial opens a connection of the protocol.
func (m *Manager) dial(ctx context.Context, via *http.Client) (*client, error) {
	ws, _, err := websocket.Dial(ctx, "ws://localhost"+msp.Path, &websocket.DialOptions{HTTPClient: via})
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	c, err := newClient(ctx, ws)
	if err != nil {
		ws.CloseNow()
	}
	return c, err
}

// status is a connection of its own to the status route, kept open: a manager
// that shuts down takes no other, and an HTTP client may give one up.
type status struct {
	conn net.Conn
	read *bufio.Reader
}

// askStatus opens the connection.
func (m *Manager) askStatus(ctx context.Context) (*status, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, m.Network, m.Address)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	s := &status{conn, bufio.NewReader(conn)}
	// Once, so that the manager has taken the connection before it can shut down.
	if _, err := s.freePermits(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

// freePermits asks the status route.
func (s *status) freePermits(ctx context.Context) (int, error) {
	defer context.AfterFunc(ctx, func() { s.conn.Close() })() // a driver that gives up asks no more
	if _, err := io.WriteString(s.conn, "GET /status HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		return 0, fmt.Errorf("cannot ask for the status: %w", err)
	}
	a, err := http.ReadResponse(s.read, nil)
	if err != nil {
		return 0, fmt.Errorf("cannot read the status: %w", err)
	}
	defer a.Body.Close()
	var answer struct {
		Permits struct{ Current int }
	}
	text, err := io.ReadAll(a.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot read the status: %w", err)
	}
	return answer.Permits.Current, nil
}
