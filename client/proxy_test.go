package client_test

import (
	"context"
	"crypto/sha1" // RFC 6455, section 4.2.2
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"microvms/client"
	"microvms/client/daemontest"
	"microvms/client/microvmtest"
)

// Every route works through the proxy: headers on all requests, subprotocols on
// tunnels, with one token for the daemon's port.
func TestSessionThroughProxy(t *testing.T) {
	t.Attr("requirement", "CLIENT-34")
	t.Attr("requirement", "CLIENT-37")
	dir := t.TempDir()
	direct, host := launchVerified(t)
	p := before(t, direct.Endpoint())
	s := p.session(t)
	ctx := t.Context()
	if h, err := s.Health(ctx); err != nil || !h.Bootstrapped {
		t.Fatalf("health %+v, %v", h, err)
	}
	if out, err := s.Command(ctx, "/bin/sh", "-c", "echo hi").Output(); string(out) != "hi\n" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	if err := s.PutFile(ctx, dir+"/f", strings.NewReader("content"), client.PutFileOptions{}); err != nil {
		t.Error(err)
	}
	r, err := s.GetFile(ctx, dir+"/f", client.Lines{})
	if got := readAll(t, r, err); got != "content" {
		t.Errorf("%q", got)
	}
	for _, identity := range []*client.TunnelIdentity{nil, &host} {
		port := guest(t, func(c net.Conn) { io.WriteString(c, "through the proxy") })
		c := dial(t, s, client.TunnelRequest{Port: port, Identity: identity})
		if got, err := io.ReadAll(c); string(got) != "through the proxy" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		c.Close()
	}
	kinds := map[string]string{}
	for _, line := range p.requests {
		kind, path, _ := strings.Cut(line, " ")
		kinds[path] += kind + " "
	}
	if kinds["/v1/tcp"] != "subprotocols subprotocols " || kinds["/v1/health"] != "headers " || kinds["/v1/fs/file"] != "headers headers " || len(kinds) < 5 {
		t.Errorf("requests %v", kinds)
	}
	if s.MintCount() != 1 || len(p.mints) != 1 || !slices.Equal(p.mints[0], []uint16{p.daemonPort}) {
		t.Errorf("%d mints: %v", s.MintCount(), p.mints)
	}
	// A session without a proxy carries none of it.
	if h, err := direct.ConnectHeaders(ctx, 8080); len(h) != 0 || err != nil {
		t.Errorf("direct: %v, %v", h, err)
	}
	if list, err := direct.ConnectSubprotocols(ctx, 8080); list != nil || err != nil {
		t.Errorf("direct: %v, %v", list, err)
	}
	plain, err := client.New(p.server.URL, daemontest.Token)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if _, err := plain.DialTunnel(ctx, client.TunnelRequest{Port: 1}); client.KindOf(err) != client.KindProtocol || client.WireKindOf(err) != "" || !strings.Contains(err.Error(), "403") {
		t.Errorf("without a token: %v", err)
	}
}

// A token is asked for with every port that was used, in order, and never for
// fewer; the header of the asked port wins.
func TestProxyTokenScope(t *testing.T) {
	t.Attr("requirement", "CLIENT-36")
	srv := microvmtest.New()
	p := &platform{t: t, scopes: map[string][]uint16{}}
	mint := func(ctx context.Context, ports []uint16) (client.ProxyToken, error) {
		_, err := p.mint(ctx, ports)
		return client.NewProxyToken(map[string]string{"X-AWS-PROXY-AUTH": fmt.Sprint(len(p.mints)), "x-aws-proxy-port": "1"}), err
	}
	s := srv.Session(t, client.WithProxy(mint, 9000, 0))
	ctx := t.Context()
	for _, step := range []struct {
		port uint16
		want []uint16 // of the mint, nil: none
	}{{8080, []uint16{8080, 9000}}, {9000, nil}, {8080, nil}, {65535, []uint16{8080, 9000, 65535}}, {22, []uint16{22, 8080, 9000, 65535}}, {65535, nil}} {
		before := len(p.mints)
		h, err := s.ConnectHeaders(ctx, step.port)
		if err != nil || h.Get(client.HeaderProxyPort) != fmt.Sprint(step.port) || h.Get(client.HeaderProxyAuth) != fmt.Sprint(len(p.mints)) {
			t.Errorf("port %d: %v, %v", step.port, h, err)
		}
		if step.want == nil && len(p.mints) != before || step.want != nil && !slices.Equal(p.mints[before], step.want) {
			t.Errorf("port %d: minted for %v, want %v", step.port, p.mints[before:], step.want)
		}
	}
	list, err := s.ConnectSubprotocols(ctx, 22)
	if want := []string{"lambda-microvms", "lambda-microvms.authentication.3", "lambda-microvms.port.22"}; err != nil || !slices.Equal(list, want) {
		t.Errorf("%q, %v", list, err)
	}
	if _, err := s.ConnectHeaders(ctx, 0); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("port 0: %v", err)
	}
	s.InvalidateProxyToken()
	if _, err := s.Health(ctx); err != nil || !slices.Equal(p.mints[len(p.mints)-1], []uint16{9000}) {
		t.Errorf("after the invalidation: %v, %v", p.mints, err)
	}
}

// A token is used up to its refresh age and no longer.
func TestProxyTokenAge(t *testing.T) {
	t.Attr("requirement", "CLIENT-35")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		p := &platform{t: t, scopes: map[string][]uint16{}}
		s := srv.Session(t, client.WithProxy(p.mint, 9000, 0))
		for i, step := range []struct {
			after time.Duration
			mints int
		}{{0, 1}, {30 * time.Minute, 1}, {1, 2}, {29 * time.Minute, 2}, {time.Hour, 3}} {
			<-time.After(step.after)
			if _, err := s.Health(t.Context()); err != nil || s.MintCount() != step.mints {
				t.Errorf("step %d: %d mints, %v", i, s.MintCount(), err)
			}
		}
		srv.Close()
	})
	for name, opt := range map[string]client.Option{
		"too old":  client.WithProxy((&platform{}).mint, 9000, time.Hour),
		"negative": client.WithProxy((&platform{}).mint, 9000, -1),
		"no port":  client.WithProxy((&platform{}).mint, 0, 0),
		"no mint":  client.WithProxy(nil, 9000, 0),
	} {
		if _, err := client.New("http://x", "t", opt); client.KindOf(err) != client.KindInvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
	if s, err := client.New("http://x", "t", client.WithProxy((&platform{}).mint, 9000, time.Hour-1)); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
}

// Requests that need a token at once share one mint; one that is invalidated
// meanwhile is not kept.
func TestProxyTokenIsMintedOnce(t *testing.T) {
	t.Attr("requirement", "CLIENT-35")
	synctest.Test(t, func(t *testing.T) {
		srv := microvmtest.New()
		p := &platform{t: t, scopes: map[string][]uint16{}}
		release := make(chan struct{})
		s := srv.Session(t, client.WithProxy(func(ctx context.Context, ports []uint16) (client.ProxyToken, error) {
			<-release
			return p.mint(ctx, ports)
		}, 9000, 0))
		var wg sync.WaitGroup
		health := func() {
			if _, err := s.Health(t.Context()); err != nil {
				t.Error(err)
			}
		}
		for range 8 {
			wg.Go(health)
		}
		synctest.Wait() // one mints, the others wait for it
		waiting, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.Health(waiting); !errors.Is(err, client.ErrInterrupted) {
			t.Errorf("a waiter that gave up: %v", err)
		}
		release <- struct{}{}
		synctest.Wait()
		if s.MintCount() != 1 {
			t.Errorf("%d mints", s.MintCount())
		}
		wg.Wait()
		s.InvalidateProxyToken()
		wg.Go(health)
		synctest.Wait()
		s.InvalidateProxyToken()
		release <- struct{}{}
		wg.Wait()
		wg.Go(health)
		release <- struct{}{} // the one before was not kept
		wg.Wait()
		if s.MintCount() != 3 {
			t.Errorf("%d mints", s.MintCount())
		}
		srv.Close()
	})
}

// A mint that fails is retryable and named, nothing is sent, and nothing kept.
func TestProxyMintFails(t *testing.T) {
	t.Attr("requirement", "CLIENT-38")
	srv := microvmtest.New()
	sent := 0
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, next http.Handler) { sent++; next.ServeHTTP(w, r) }
	refused := errors.New("throttled")
	answer, fail := client.NewProxyToken(map[string]string{"other": "x"}), refused
	s := srv.Session(t, client.WithProxy(func(context.Context, []uint16) (client.ProxyToken, error) { return answer, fail }, 9000, 0))
	ctx := t.Context()
	calls := map[string]func() error{
		"health":   func() error { _, err := s.Health(ctx); return err },
		"put":      func() error { return s.PutFile(ctx, "/f", strings.NewReader("x"), client.PutFileOptions{}) },
		"get":      func() error { _, err := s.GetFile(ctx, "/f", client.Lines{}); return err },
		"tunnel":   func() error { _, err := s.DialTunnel(ctx, client.TunnelRequest{Port: 1}); return err },
		"connect":  func() error { _, err := s.ConnectHeaders(ctx, 80); return err },
		"protocol": func() error { _, err := s.ConnectSubprotocols(ctx, 80); return err },
	}
	for name, call := range calls {
		if err := call(); client.WireKindOf(err) != client.WireAuthTokenMint || !client.Retryable(err) || !errors.Is(err, refused) || !strings.Contains(err.Error(), "9000") {
			t.Errorf("%s: %v", name, err)
		}
	}
	fail = nil
	for name, call := range calls {
		if err := call(); client.WireKindOf(err) != client.WireAuthTokenMint || !client.Retryable(err) {
			t.Errorf("%s, a token without the header: %v", name, err)
		}
	}
	if sent != 0 || s.MintCount() != 0 {
		t.Errorf("%d requests, %d mints", sent, s.MintCount())
	}
	answer = client.NewProxyToken(map[string]string{client.HeaderProxyAuth: "no, token"})
	if _, err := s.ConnectSubprotocols(ctx, 80); client.KindOf(err) != client.KindProtocol || strings.Contains(err.Error(), "no, token") {
		t.Errorf("a value that is no subprotocol: %v", err)
	}
	if _, err := s.Health(ctx); err != nil || sent != 1 {
		t.Errorf("%v, %d requests", err, sent)
	}
}

// The endpoint token is in nothing that is printed or logged, also where the far
// end repeats it.
func TestProxyTokenIsNeverPrinted(t *testing.T) {
	t.Attr("requirement", "CLIENT-12")
	const auth = "proxy-secret-31415926"
	token := client.NewProxyToken(map[string]string{client.HeaderProxyAuth: auth})
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "token", token)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "token", token)
	text := log.String() + fmt.Sprintf("%v %+v %#v %s %q", token, token, token, token, token)
	srv := microvmtest.New()
	srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "%q %q", r.Header, r.Header.Get(client.HeaderProxyAuth))
	}
	s := srv.Session(t, client.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))),
		client.WithProxy(func(context.Context, []uint16) (client.ProxyToken, error) { return token, nil }, 9000, 0))
	_, err := s.Health(t.Context())
	text += fmt.Sprintf("%v %+v %#v %v", err, err, s, log.String())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		key := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\nSec-WebSocket-Protocol: x%s\r\n\r\n",
			base64.StdEncoding.EncodeToString(key[:]), r.Header.Get("Sec-WebSocket-Protocol"))
	}))
	defer server.Close()
	if err := s.Rebind(server.URL); err != nil {
		t.Fatal(err)
	}
	far, err := client.New(server.URL, "agent-token", client.WithProxy(func(context.Context, []uint16) (client.ProxyToken, error) { return token, nil }, 9000, 0))
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	_, err = far.DialTunnel(t.Context(), client.TunnelRequest{Port: 1})
	if err == nil || !strings.Contains(err.Error(), "unexpected Sec-WebSocket-Protocol") {
		t.Errorf("a far end that selects what was not offered: %v", err)
	}
	text += fmt.Sprintf("%v %+v", err, err)
	if strings.Contains(text, auth) || !strings.Contains(text, "X-Aws-Proxy-Auth [redacted]") {
		t.Errorf("%s", text)
	}
}

// After a resume the session goes to the endpoint that it was told, with a token
// of its own.
func TestRebind(t *testing.T) {
	t.Attr("requirement", "CLIENT-39")
	first, second := daemon(t), daemon(t)
	p, q := before(t, first.Endpoint), before(t, second.Endpoint)
	port := p.daemonPort
	s := p.session(t)
	if _, err := s.Procs(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.daemonPort = port // one VM has one port, wherever its endpoint is
	q.scopes = p.scopes
	if err := s.Rebind(q.server.URL + "/"); err != nil || s.Endpoint() != q.server.URL {
		t.Fatalf("%v, endpoint %s", err, s.Endpoint())
	}
	if _, err := s.Procs(t.Context()); err != nil {
		t.Error(err)
	}
	if s.MintCount() != 2 || len(q.requests) != 1 || len(p.requests) != 1 {
		t.Errorf("%d mints, requests %q and %q", s.MintCount(), p.requests, q.requests)
	}
	if err := s.Rebind("ftp://x"); client.KindOf(err) != client.KindInvalidArg || s.Endpoint() != q.server.URL {
		t.Errorf("%v, endpoint %s", err, s.Endpoint())
	}
}
