package client

import (
	"log/slog"
	"net/http"
	"time"
)

// Option changes one setting of [New].
type Option func(*Session)

// WithHTTPClient makes the session send through c. The session never follows
// redirects and sets its own timeouts, whatever c says; it does not close c's
// idle connections, which stay the caller's.
func WithHTTPClient(c *http.Client) Option {
	return func(s *Session) {
		if c != nil {
			s.transport, s.ownTransport = c.Transport, nil
			if s.transport == nil {
				s.transport = http.DefaultTransport
			}
		}
	}
}

// WithLogger sets where the session logs: one debug record a request. The
// default discards. Tokens, environments and output are never logged.
func WithLogger(l *slog.Logger) Option {
	return func(s *Session) {
		if l != nil {
			s.log = l
		}
	}
}

// WithClock replaces the system clock.
func WithClock(c Clock) Option {
	return func(s *Session) {
		if c != nil {
			// CLIENT-22: the one clock of deadlines, pauses and idle timeouts.
			s.clock = c
		}
	}
}

// WithRequestTimeout bounds each request that is not a stream. Default 60 s.
func WithRequestTimeout(d time.Duration) Option {
	return func(s *Session) {
		if d > 0 {
			s.requestTimeout = d
		}
	}
}

// WithIdleTimeout bounds the silence on a stream, keep-alives included, before
// it counts as cut. Default 60 s; the daemon's keep-alives come every 15 s.
func WithIdleTimeout(d time.Duration) Option {
	return func(s *Session) {
		if d > 0 {
			s.idleTimeout = d
		}
	}
}

// Retry is the policy of the loops that outlive a retryable error: the wait
// loop and the stream's reconnects. No single request is ever repeated.
type Retry struct {
	// Delays before the first, second, … reconnect; the last one repeats.
	Delays []time.Duration
	// Reconnects is the number of reconnects a stream may make over its life.
	Reconnects int
	// Poll is the longest interval between the polls of a wait; the first ones
	// are shorter.
	Poll time.Duration
}

// DefaultRetry is the policy of client facts, section 10.
func DefaultRetry() Retry {
	return Retry{
		// CLIENT-4: short at first, since most cuts are; the last one repeats.
		Delays: []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second,
		},
		Reconnects: 20,
		Poll:       time.Second,
	}
}

// WithRetry replaces [DefaultRetry]. Fields that are zero or empty keep their
// default, except Reconnects, where zero means none.
func WithRetry(r Retry) Option {
	return func(s *Session) {
		def := DefaultRetry()
		if len(r.Delays) == 0 {
			r.Delays = def.Delays
		}
		if r.Poll <= 0 {
			r.Poll = def.Poll
		}
		r.Reconnects = max(r.Reconnects, 0)
		s.retry = r
	}
}

// delay gives the pause before reconnect number n, counted from 1.
func (r Retry) delay(n int) time.Duration {
	return r.Delays[min(n, len(r.Delays))-1]
}

// secret holds the agent token. It prints as [redacted] by every verb and
// handler, so that no format string can leak it.
type secret struct{ value string }

func (secret) String() string               { return "[redacted]" }
func (secret) GoString() string             { return "[redacted]" }
func (secret) LogValue() slog.Value         { return slog.StringValue("[redacted]") }
func (secret) MarshalText() ([]byte, error) { return []byte("[redacted]"), nil }
