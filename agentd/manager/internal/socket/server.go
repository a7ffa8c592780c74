// Package socket serves the Manager Socket Protocol on WebSockets (manager
// facts, section 2): it upgrades, frames, judges messages in the order of
// section 2.3, hands requests to the run table and writes replies, events and
// artifact pages. It decides nothing about runs: that is package runs.
//
// A connection has two goroutines. The reader handles requests strictly one
// after another and waits while its own answers pile up; the writer drains the
// queue. Neither is ever waited for by the run table or by another connection.
package socket

import (
	"context"
	"net/http"
	"sync"
	"time"

	"microvms/agentd/trace"
)

// defaultLeaveWait bounds the answer to a client's close frame while the client does
// not read.
const defaultLeaveWait = time.Second

// Server upgrades connections and serves them. Its methods are safe for
// concurrent use.
type Server struct {
	config Config
	serve  func(c *conn, text bool, message []byte) // handles one message; tests put their own in its place

	leaveWait time.Duration // defaultLeaveWait; tests shorten it

	base context.Context // ends when the connections are cut
	end  context.CancelFunc

	mu       sync.Mutex
	serial   uint64
	conns    map[*conn]struct{}
	stopping bool
	cutting  bool
	running  sync.WaitGroup // connections; grows only while not stopping
}

// ServeHTTP upgrades the request and serves its connection until it ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !admissible(w, r) {
		return
	}
	c := s.begin()
	if c == nil {
		w.Header().Set("Connection", "close")
		refuse(w, http.StatusServiceUnavailable, "the manager shuts down")
		return
	}
	defer s.finish(c)
	if err := c.open(w, r); err != nil {
		s.config.Log.Debug("upgrade failed", "conn", c.serial, "err", err)
		return
	}
	c.run()
}

// begin registers a connection, nil once the server stops.
func (s *Server) begin() *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil
	}
	s.serial++
	c := &conn{server: s, serial: s.serial, queue: newQueue()}
	s.conns[c] = struct{}{}
	s.running.Add(1)
	return c
}

func (s *Server) finish(c *conn) {
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.running.Done()
}

// attach gives a connection its socket. It reports false when the connections
// were cut meanwhile.
func (s *Server) attach(c *conn, g *guard) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.guard = g
	return !s.cutting
}

// Stop refuses further connections. Those that there are go on.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopping = true
}

// Shutdown lets each connection write what is queued and a close frame, cuts
// what is left when ctx ends, and returns when every connection has ended. Its
// error is ctx's, if connections were cut.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Stop()
	s.mu.Lock()
	for c := range s.conns {
		// SOCKET-24: drained, not cut, because what waits may be how a run ended.
		c.queue.drain()
	}
	s.mu.Unlock()
	cut := context.AfterFunc(ctx, s.cut)
	s.running.Wait()
	if cut() {
		s.end()
		return nil
	}
	return ctx.Err()
}

// cut closes every connection's socket.
func (s *Server) cut() {
	s.end() // whoever is parked at the gate
	s.mu.Lock()
	s.cutting = true
	var left []*conn
	for c := range s.conns {
		if c.guard != nil {
			left = append(left, c)
		}
	}
	s.mu.Unlock()
	for _, c := range left {
		c.cut()
	}
}

// Conns returns the number of open connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// pass parks the caller before a transition while the gate is closed.
func (s *Server) pass(p trace.Point) bool {
	return s.config.Gate == nil || s.config.Gate.Pass(s.base, p) == nil
}

func (s *Server) record(p trace.Point, attrs ...trace.Attr) {
	if s.config.Recorder != nil {
		s.config.Recorder.Record(trace.Event{Point: p, Attrs: attrs})
	}
}
