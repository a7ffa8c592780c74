package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"microvms/client"
	"microvms/client/daemontest"
)

// platform is a fake of the platform's proxy before a daemon, and of what mints
// its tokens.
type platform struct {
	t          *testing.T
	server     *httptest.Server
	daemonPort uint16

	mu       sync.Mutex
	scopes   map[string][]uint16 // by token
	mints    [][]uint16
	requests []string // "headers /v1/health", "subprotocols /v1/tcp"
}

// before starts a proxy before the daemon at endpoint.
func before(t *testing.T, endpoint string) *platform {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(target.Port(), 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{t: t, daemonPort: uint16(port), scopes: map[string][]uint16{}}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.FlushInterval = -1
	forward.Transport = &http.Transport{DisableKeepAlives: true}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.admit(r) {
			http.Error(w, "Access to port denied", http.StatusForbidden)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	return p
}

// admit checks the credential and the port of a request and takes them away.
func (p *platform) admit(r *http.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	auth, port := r.Header.Get(client.HeaderProxyAuth), r.Header.Get(client.HeaderProxyPort)
	kind := "headers"
	if offered := strings.Split(r.Header.Get("Sec-WebSocket-Protocol"), ","); len(offered) == 3 {
		if auth != "" || port != "" {
			p.t.Error("a WebSocket carries the credential twice")
		}
		kind = "subprotocols"
		if strings.TrimSpace(offered[0]) != "lambda-microvms" {
			p.t.Errorf("subprotocols %q", offered)
		}
		auth = strings.TrimPrefix(strings.TrimSpace(offered[1]), "lambda-microvms.authentication.")
		port = strings.TrimPrefix(strings.TrimSpace(offered[2]), "lambda-microvms.port.")
		r.Header.Del("Sec-WebSocket-Protocol")
	}
	for _, name := range []string{client.HeaderProxyAuth, client.HeaderProxyPort} {
		r.Header.Del(name)
	}
	p.requests = append(p.requests, kind+" "+r.URL.Path)
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && slices.Contains(p.scopes[auth], uint16(n)) && uint16(n) == p.daemonPort
}

func (p *platform) mint(_ context.Context, ports []uint16) (client.ProxyToken, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	auth := fmt.Sprintf("proxy-secret-%d", len(p.mints))
	p.mints = append(p.mints, ports)
	p.scopes[auth] = ports
	return client.NewProxyToken(map[string]string{"x-aws-proxy-auth": auth, "X-Extra": "rides along"}), nil
}

func (p *platform) session(t *testing.T, opts ...client.Option) *client.Session {
	t.Helper()
	opts = append([]client.Option{client.WithProxy(p.mint, p.daemonPort, 0)}, opts...)
	s, err := client.New(p.server.URL, daemontest.Token, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
