package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
)

// Headers of a request through the platform's proxy; both are needed (client
// facts, section 9).
const (
	HeaderProxyAuth = "X-Aws-Proxy-Auth"
	HeaderProxyPort = "X-Aws-Proxy-Port"
)

// Prefixes of the subprotocols by which a WebSocket carries the same.
const (
	subprotocolAuth = api.TunnelSubprotocol + ".authentication."
	subprotocolPort = api.TunnelSubprotocol + ".port."
)

// Life of an endpoint token.
const (
	// DefaultProxyRefresh is the age at which a token is replaced: half of its
	// life, so that it cannot expire between a request's making and its check.
	DefaultProxyRefresh = 30 * time.Minute
	// MaxProxyRefresh is that life itself, and too long to be an age.
	MaxProxyRefresh = 60 * time.Minute
)

// ProxyToken is an endpoint token: the headers that CreateMicrovmAuthToken gives
// for a VM. It prints as the names of its headers, and shows no value.
type ProxyToken struct{ headers http.Header }

// NewProxyToken copies the map that the control plane answered with.
func NewProxyToken(headers map[string]string) ProxyToken {
	t := ProxyToken{headers: http.Header{}}
	for name, value := range headers {
		t.headers.Set(name, value)
	}
	return t
}

// auth is the value that opens the endpoint, "" if the token has none.
func (t ProxyToken) auth() string { return t.headers.Get(HeaderProxyAuth) }

// String shows the names of the headers.
func (t ProxyToken) String() string {
	return "endpoint token " + strings.Join(slices.Sorted(maps.Keys(t.headers)), ", ") + " [redacted]"
}

// GoString is String: %#v must not print the values.
func (t ProxyToken) GoString() string { return t.String() }

// LogValue is String.
func (t ProxyToken) LogValue() slog.Value { return slog.StringValue(t.String()) }

// MarshalText is String.
func (t ProxyToken) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MintFunc asks the control plane for a token that is good for all of the ports,
// which are sorted and no port 0, for 60 minutes. The slice is the callee's.
// Calls of it never overlap.
type MintFunc func(ctx context.Context, ports []uint16) (ProxyToken, error)

// WithProxy makes every request of the session carry what the platform's proxy
// wants: a token from mint and the port of the daemon, in two headers, or, for a
// tunnel, in three subprotocols. Tokens are kept, replaced once they are older
// than refresh (0: DefaultProxyRefresh), and asked for with all ports that the
// session has used so far. A mint that fails is a retryable error with
// WireAuthTokenMint.
//
// [New] refuses port 0 and a refresh of MaxProxyRefresh or more.
func WithProxy(mint MintFunc, port uint16, refresh time.Duration) Option {
	return func(s *Session) {
		if refresh == 0 {
			refresh = DefaultProxyRefresh
		}
		s.proxy = &proxy{mint: mint, port: port, refresh: refresh, minting: make(chan struct{}, 1)}
	}
}

// proxy keeps the token of a session.
type proxy struct {
	mint    MintFunc
	port    uint16
	refresh time.Duration
	clock   Clock
	minting chan struct{} // a lock that a waiter can give up

	mu     sync.Mutex // guards what follows
	token  ProxyToken
	minted time.Time
	scope  []uint16 // sorted; nil: no token
	era    int      // counts invalidations
	count  int      // of mints
	recent []string // values to be kept out of texts: an answer may repeat the one before
}

// check refuses a configuration that cannot work.
func (p *proxy) check() error {
	switch {
	case p.mint == nil:
		return invalidArg("proxy: no function that mints tokens")
	case p.port == 0:
		return invalidArg("proxy port: 0 is no port; give the port that the daemon listens on")
	case p.refresh < 0 || p.refresh >= MaxProxyRefresh:
		// CLIENT-35: such a token would be used after its end.
		return invalidArg("proxy refresh: %s is not between 0 and the %s that a token lives", p.refresh, MaxProxyRefresh)
	}
	return nil
}

// cached returns the token if it is fresh and good for the port.
func (p *proxy) cached(port uint16) (ProxyToken, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, inScope := slices.BinarySearch(p.scope, port)
	return p.token, inScope && p.clock.Now().Sub(p.minted) <= p.refresh
}

// get returns a token that is good for the port, from the cache or minted. Its
// error is one about minting, or the end of ctx.
func (p *proxy) get(ctx context.Context, port uint16) (ProxyToken, error) {
	if t, ok := p.cached(port); ok {
		return t, nil
	}
	select {
	case p.minting <- struct{}{}:
		defer func() { <-p.minting }()
	case <-ctx.Done():
		return ProxyToken{}, context.Cause(ctx)
	}
	// CLIENT-35: looked for again, because whoever held the lock may have minted it.
	if t, ok := p.cached(port); ok {
		return t, nil
	}
	p.mu.Lock()
	era := p.era
	// CLIENT-36: a superset, because a token for this port alone would close the others.
	scope := append([]uint16{p.port, port}, p.scope...)
	p.mu.Unlock()
	slices.Sort(scope)
	scope = slices.Compact(scope)
	start := p.clock.Now()
	t, err := p.mint(ctx, slices.Clone(scope))
	if err == nil && t.auth() == "" {
		err = fmt.Errorf("the token has no header %s", HeaderProxyAuth)
	}
	if err != nil {
		if ctx.Err() != nil {
			return ProxyToken{}, context.Cause(ctx)
		}
		// CLIENT-38: whatever the cause, because a throttle must not end a healthy run.
		return ProxyToken{}, &Error{Kind: KindRetryable, Wire: WireAuthTokenMint,
			Message: fmt.Sprintf("cannot mint an endpoint token for ports %s", portList(scope)), Err: err}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	p.recent = append(p.recent, t.auth())
	p.recent = p.recent[max(0, len(p.recent)-4):]
	if p.era == era { // else it may be of before what it was invalidated for
		p.token, p.minted, p.scope = t, start, scope
	}
	return t, nil
}

func portList(ports []uint16) string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = strconv.Itoa(int(port))
	}
	return strings.Join(texts, ", ")
}

// invalidate forgets the token and its scope.
func (p *proxy) invalidate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.token, p.scope = ProxyToken{}, nil
	p.era++
}

// authorize sets the headers of a request: the proxy's first, so that nothing of
// them can stand for the bearer.
func (s *Session) authorize(ctx context.Context, h http.Header) error {
	if s.proxy == nil {
		return nil
	}
	t, err := s.proxy.get(ctx, s.proxy.port)
	if err != nil {
		return err
	}
	// CLIENT-34: both, because one alone fails like a bad token.
	maps.Copy(h, t.headers.Clone())
	if h.Get(HeaderProxyPort) == "" {
		h.Set(HeaderProxyPort, strconv.Itoa(int(s.proxy.port)))
	}
	return nil
}

// ConnectHeaders returns the headers by which an HTTPS request of the caller's
// own reaches another port of the VM through the proxy; none for a session
// without [WithProxy]. They hold a credential: don't log them. The map is the
// caller's.
func (s *Session) ConnectHeaders(ctx context.Context, port uint16) (http.Header, error) {
	if s.proxy == nil {
		return http.Header{}, nil
	}
	t, err := s.connectToken(ctx, port)
	if err != nil {
		return nil, err
	}
	h := t.headers.Clone()
	h.Set(HeaderProxyPort, strconv.Itoa(int(port)))
	return h, nil
}

// ConnectSubprotocols returns the subprotocols by which a WebSocket of the
// caller's own reaches another port of the VM, in their order; none for a session
// without [WithProxy]. One of them holds a credential: don't log them.
func (s *Session) ConnectSubprotocols(ctx context.Context, port uint16) ([]string, error) {
	if s.proxy == nil {
		return nil, nil
	}
	t, err := s.connectToken(ctx, port)
	if err != nil {
		return nil, err
	}
	return subprotocols(t, port)
}

func (s *Session) connectToken(ctx context.Context, port uint16) (ProxyToken, error) {
	if port == 0 {
		return ProxyToken{}, invalidArg("port: 0 is no port")
	}
	callCtx, done, err := s.begin(ctx)
	if err != nil {
		return ProxyToken{}, err
	}
	defer done()
	reqCtx, cancel := withTimeout(callCtx, s.clock, s.requestTimeout)
	defer cancel()
	t, err := s.proxy.get(reqCtx, port)
	if err != nil {
		return ProxyToken{}, s.failure(ctx, reqCtx, call{method: "CreateMicrovmAuthToken"}, err)
	}
	return t, nil
}

// subprotocols carry what two headers do elsewhere.
func subprotocols(t ProxyToken, port uint16) ([]string, error) {
	auth := t.auth()
	if strings.ContainsAny(auth, " \t\r\n,;\"") {
		return nil, protocolError("the endpoint token holds a character that no WebSocket can carry")
	}
	return []string{api.TunnelSubprotocol, subprotocolAuth + auth, subprotocolPort + strconv.Itoa(int(port))}, nil
}

// tunnelSubprotocols are those of a tunnel.
func (s *Session) tunnelSubprotocols(ctx context.Context) ([]string, error) {
	if s.proxy == nil {
		return nil, nil
	}
	// CLIENT-37: the daemon's port, because the guest's is the daemon's to dial; a
	// token for that one ends in a close that says nothing.
	t, err := s.proxy.get(ctx, s.proxy.port)
	if err != nil {
		return nil, err
	}
	return subprotocols(t, s.proxy.port)
}

// MintCount is how many endpoint tokens the session has minted.
func (s *Session) MintCount() int {
	if s.proxy == nil {
		return 0
	}
	s.proxy.mu.Lock()
	defer s.proxy.mu.Unlock()
	return s.proxy.count
}

// InvalidateProxyToken makes the next request mint a token.
func (s *Session) InvalidateProxyToken() {
	if s.proxy != nil {
		s.proxy.invalidate()
	}
}

// Rebind points the session at the endpoint that a resume has reported, and
// forgets the endpoint token. Requests under way stay where they are; the agent
// token is kept. Errors are those of New for the endpoint.
func (s *Session) Rebind(endpoint string) error {
	base, err := parseEndpoint(endpoint)
	if err != nil {
		return err
	}
	s.base.Store(base)
	// CLIENT-39: the token before was for where the VM was.
	s.InvalidateProxyToken()
	return nil
}

// redact takes both credentials out of a text that the far end had a hand in.
func (s *Session) redact(text string) string {
	secrets := []string{s.token.value}
	if s.proxy != nil {
		s.proxy.mu.Lock()
		secrets = append(secrets, s.proxy.recent...)
		s.proxy.mu.Unlock()
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, secret := range secrets {
		if secret != "" {
			pairs = append(pairs, secret, s.token.String())
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// redactError is err, or one with its redacted text where that differs.
func (s *Session) redactError(err error) error {
	if text := s.redact(err.Error()); text != err.Error() {
		return errors.New(text)
	}
	return err
}
