package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Session talks to one daemon. It is safe for concurrent use. Close it.
type Session struct {
	base  atomic.Pointer[url.URL]
	token secret
	proxy *proxy // nil: a direct session

	transport    http.RoundTripper
	ownTransport *http.Transport // non-nil: Close ends its idle connections
	log          *slog.Logger
	clock        Clock
	retry        Retry

	requestTimeout time.Duration
	idleTimeout    time.Duration

	closing context.Context // ended by Close
	close   context.CancelFunc

	mu     sync.Mutex     // guards closed and the growth of calls
	closed bool           // once true, calls grows no more
	calls  sync.WaitGroup // goroutines the session started
}

// New opens a session with the daemon at endpoint: a host, host:port, or URL.
// Without a scheme it is https. The token is the daemon's bearer; it may be
// empty for a session that only asks for health. No request is made.
//
// It returns an error of KindInvalidArg when the endpoint, the token or an option
// cannot be used.
func New(endpoint, token string, opts ...Option) (*Session, error) {
	base, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if strings.ContainsAny(token, "\r\n\x00") {
		return nil, invalidArg("agent token: holds a control character, which no header can carry")
	}
	own := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		// Below the daemon's 5 s between requests (wire facts, section 1), so
		// that a request is not sent on a connection about to be closed.
		IdleConnTimeout:     3 * time.Second,
		MaxIdleConnsPerHost: 16,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		// The body caps count what is read, so nothing may be inflated on the way.
		DisableCompression: true,
	}
	s := &Session{
		token:     secret{token},
		transport: own, ownTransport: own,
		log: slog.New(slog.DiscardHandler), clock: systemClock{}, retry: DefaultRetry(),
		requestTimeout: 60 * time.Second, idleTimeout: 60 * time.Second,
	}
	s.closing, s.close = context.WithCancel(context.Background())
	for _, opt := range opts {
		opt(s)
	}
	s.base.Store(base)
	if s.proxy != nil {
		s.proxy.clock = s.clock
		if err := s.proxy.check(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Close ends every call in flight with ErrClosed, waits for the session's
// goroutines and drops its idle connections. Remote execs go on. It is safe to
// call it more than once.
func (s *Session) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	// CLIENT-10: after the return nothing of the session runs.
	s.calls.Wait()
	if s.ownTransport != nil {
		s.ownTransport.CloseIdleConnections()
	}
	return nil
}

// Endpoint returns the daemon's base URL, without a trailing slash.
func (s *Session) Endpoint() string { return s.base.Load().String() }

// LogValue shows the endpoint and nothing secret.
func (s *Session) LogValue() slog.Value {
	return slog.GroupValue(slog.String("endpoint", s.Endpoint()))
}

// String is for debugging; it shows nothing secret.
func (s *Session) String() string { return "session with " + s.Endpoint() }

// GoString is String: %#v must not print the fields.
func (s *Session) GoString() string { return s.String() }

// parseEndpoint applies client facts, section 9: a bare host means https, an
// explicit http is kept, trailing slashes go.
func parseEndpoint(endpoint string) (*url.URL, error) {
	text := endpoint
	if !strings.Contains(text, "://") {
		// CLIENT-27: in clear only where the caller says so.
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		// The parser's message quotes its input, which could hold a password.
		return nil, invalidArg("endpoint: not a URL or host; give one such as http://127.0.0.1:9000")
	}
	switch {
	// CLIENT-26: what would be lost or logged is refused.
	case u.User != nil:
		return nil, invalidArg("endpoint: must not hold a user or password")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidArg("endpoint: scheme %q is neither http nor https", u.Scheme)
	case u.Hostname() == "":
		return nil, invalidArg("endpoint %q: names no host", endpoint)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, invalidArg("endpoint: must not hold a query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// NewExecID mints an exec id: "x-" and 16 hexadecimal digits from crypto/rand.
// A caller that keeps its id can repeat a start safely, also after its own
// restart: the daemon starts a known id only once.
func NewExecID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the program instead
	return "x-" + hex.EncodeToString(b[:])
}

// begin derives the context of one call: it ends with the caller's, or when the
// session is closed. After Close it fails with ErrClosed.
func (s *Session) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if s.closing.Err() != nil {
		return nil, nil, errSessionClosed()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.closing, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(context.Canceled) }, nil
}

// goCall runs f in a goroutine that Close waits for. After Close it does not
// run f and returns false.
func (s *Session) goCall(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.calls.Go(f)
	return true
}

func errSessionClosed() error {
	return &Error{Kind: KindInvalidArg, Err: ErrClosed}
}
