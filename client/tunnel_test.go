package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
	"microvms/client"
	"microvms/client/daemontest"
)

// identities returns the keys of a host and of a VM, as each side holds them.
func identities(t testing.TB) (host client.TunnelIdentity, seed, hostPublic [32]byte) {
	t.Helper()
	for i := range 32 {
		host.HostSeed[i], seed[i] = 9, 7
	}
	var err error
	if host.VMPublicKey, err = tunnel.PublicKey(seed); err != nil {
		t.Fatal(err)
	}
	if hostPublic, err = tunnel.PublicKey(host.HostSeed); err != nil {
		t.Fatal(err)
	}
	return host, seed, hostPublic
}

// launchVerified starts a daemon whose launch brought an identity, and returns
// a session with it and the host's half.
func launchVerified(t testing.TB, settings ...string) (*client.Session, client.TunnelIdentity) {
	t.Helper()
	d, err := daemontest.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Errorf("the daemon ended with %v", err)
		}
	})
	host, seed, hostPublic := identities(t)
	payload, err := json.Marshal(map[string]string{
		api.PayloadToken: daemontest.Token, api.PayloadIdentitySeed: base64.StdEncoding.EncodeToString(seed[:]),
		api.PayloadIdentityHostPublic: base64.StdEncoding.EncodeToString(hostPublic[:]),
	})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"runHookPayload": string(payload)})
	if err != nil {
		t.Fatal(err)
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := plain.Post(d.Endpoint+api.HookPrefix+"/"+api.HookRun, api.MediaJSON, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("the run hook answered %d", resp.StatusCode)
	}
	s, err := client.New(d.Endpoint, daemontest.Token)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, host
}

// guest listens on the loopback and serves each connection with f.
func guest(t testing.TB, f func(net.Conn)) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// unlistened is a port that nobody listens on, nor can for as long as the test
// lasts: it is bound.
func unlistened(t testing.TB) uint16 {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return uint16(at.(*unix.SockaddrInet4).Port)
}

func dial(t testing.TB, s *client.Session, r client.TunnelRequest) *client.Tunnel {
	t.Helper()
	c, err := s.DialTunnel(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { c.Close() })
	return c
}

// kinds runs f for a plain and for a verified tunnel.
func kinds(t *testing.T, f func(t *testing.T, s *client.Session, identity *client.TunnelIdentity)) {
	s, host := launchVerified(t)
	t.Run("plain", func(t *testing.T) { f(t, s, nil) })
	t.Run("verified", func(t *testing.T) { f(t, s, &host) })
}

// TestTunnelDownload reads everything that a guest sends before it closes: the
// bytes are all there, and a verified tunnel says that they are.
func TestTunnelDownload(t *testing.T) {
	t.Attr("requirement", "AGENTD-19")
	t.Attr("requirement", "BIND-23")
	kinds(t, func(t *testing.T, s *client.Session, identity *client.TunnelIdentity) {
		want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		port := guest(t, func(c net.Conn) { c.Write(want) })
		c := dial(t, s, client.TunnelRequest{Port: port, Identity: identity})
		got, err := io.ReadAll(c)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("read %d bytes of %d, %v", len(got), len(want), err)
		}
		if o := c.Outcome(); o.End != client.TunnelClosed {
			t.Errorf("outcome %+v", o)
		}
	})
}

// TestTunnelUpload closes a tunnel after its last byte: the guest reads all of
// it and then its end, not a reset.
func TestTunnelUpload(t *testing.T) {
	t.Attr("requirement", "TUNNEL-12")
	kinds(t, func(t *testing.T, s *client.Session, identity *client.TunnelIdentity) {
		type read struct {
			n   int
			err error
		}
		got := make(chan read, 1)
		port := guest(t, func(c net.Conn) {
			io.WriteString(c, "in flight when the caller ends")
			n, err := io.Copy(io.Discard, c)
			got <- read{int(n), err}
		})
		c := dial(t, s, client.TunnelRequest{Port: port, Identity: identity})
		if n, err := c.Write(make([]byte, 1<<20)); n != 1<<20 || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if r := <-got; r.n != 1<<20 || r.err != nil {
			t.Errorf("the guest read %d bytes, %v", r.n, r.err)
		}
		if o := c.Outcome(); o.End != client.TunnelClosed {
			t.Errorf("outcome %+v", o)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read after Close: %v", err)
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Write after Close: %v", err)
		}
	})
}

// TestTunnelRefusals checks the close code of each refusal, and that nothing is
// tried again in another form.
func TestTunnelRefusals(t *testing.T) {
	t.Attr("requirement", "TUNNEL-8")
	t.Attr("requirement", "BIND-21")
	port := unlistened(t)
	verified, host := launchVerified(t)
	without := realSession(t)
	wrongHost, wrongVM := host, host
	wrongHost.HostSeed[5]++
	wrongVM.VMPublicKey[5]++
	for _, c := range []struct {
		name     string
		s        *client.Session
		identity *client.TunnelIdentity
		code     int
		reason   string
	}{
		{"nothing listens, plain", verified, nil, api.TunnelNoListener, fmt.Sprint(port)},
		{"nothing listens, verified", verified, &host, api.TunnelNoListener, "listening"},
		{"no identity", without, &host, api.TunnelNoIdentity, "launched without"},
		{"wrong host key", verified, &wrongHost, api.TunnelIdentityRefused, "handshake"},
		{"wrong VM key", verified, &wrongVM, api.TunnelIdentityRefused, "handshake"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tun, err := c.s.DialTunnel(t.Context(), client.TunnelRequest{Port: port, Identity: c.identity})
			if err == nil {
				defer tun.Close()
				_, err = tun.Read(make([]byte, 1))
				if o := tun.Outcome(); o.End != client.TunnelRefused || o.Code != c.code {
					t.Errorf("outcome %+v", o)
				}
			}
			var refused *client.TunnelRefusedError
			if !errors.As(err, &refused) || refused.Code != c.code || !strings.Contains(refused.Reason, c.reason) {
				t.Errorf("%v, want code %d with %q", err, c.code, c.reason)
			}
		})
	}
	if _, err := verified.DialTunnel(t.Context(), client.TunnelRequest{}); client.KindOf(err) != client.KindInvalidArg {
		t.Errorf("port 0: %v", err)
	}
}

// TestTunnelDialer puts a tunnel under http.Transport, as its users do.
func TestTunnelDialer(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	kinds(t, func(t *testing.T, s *client.Session, identity *client.TunnelIdentity) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %d", r.Method, r.URL.Path, len(body))
		})}
		served := make(chan struct{})
		go func() { defer close(served); _ = server.Serve(l) }()
		t.Cleanup(func() { server.Close(); <-served })
		transport := &http.Transport{DialContext: s.TunnelDialer(identity)}
		defer transport.CloseIdleConnections()
		port := l.Addr().(*net.TCPAddr).Port
		for i := range 3 {
			resp, err := (&http.Client{Transport: transport}).Post(fmt.Sprintf("http://vm.invalid:%d/p%d", port, i), "text/plain", strings.NewReader(strings.Repeat("x", 100000)))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if want := fmt.Sprintf("POST /p%d 100000", i); string(body) != want || err != nil {
				t.Errorf("answered %q, %v, want %q", body, err, want)
			}
		}
		dialer := s.TunnelDialer(identity)
		for _, c := range [][2]string{{"udp", "vm:80"}, {"tcp", "vm"}, {"tcp", "vm:http"}, {"tcp", "vm:65536"}, {"tcp", "vm:0"}} {
			if _, err := dialer(context.Background(), c[0], c[1]); client.KindOf(err) != client.KindInvalidArg {
				t.Errorf("dial %s %s: %v", c[0], c[1], err)
			}
		}
	})
}

// TestTunnelDeadlines checks that a read's deadline ends the read alone, and
// that a new one makes the connection readable again.
func TestTunnelDeadlines(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	kinds(t, func(t *testing.T, s *client.Session, identity *client.TunnelIdentity) {
		release := make(chan struct{})
		port := guest(t, func(c net.Conn) {
			<-release
			io.WriteString(c, "late")
			io.Copy(io.Discard, c)
		})
		c := dial(t, s, client.TunnelRequest{Port: port, Identity: identity})
		c.SetReadDeadline(time.Now().Add(-time.Second))
		if n, err := c.Read(make([]byte, 8)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("read %d, %v", n, err)
		}
		waiting := make(chan error, 1)
		c.SetReadDeadline(time.Time{})
		go func() { _, err := c.Read(make([]byte, 8)); waiting <- err }()
		c.SetReadDeadline(time.Now().Add(-time.Second))
		if err := <-waiting; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a waiting read: %v", err)
		}
		c.SetReadDeadline(time.Time{})
		close(release)
		buf := make([]byte, 8)
		if n, err := c.Read(buf); string(buf[:n]) != "late" || err != nil {
			t.Errorf("read %q, %v", buf[:n], err)
		}
	})
}

// TestSessionCloseEndsTunnels checks that a closed session leaves no tunnel and
// no goroutine, whatever its tunnels were doing.
func TestSessionCloseEndsTunnels(t *testing.T) {
	t.Attr("requirement", "TUNNEL-14")
	kinds(t, func(t *testing.T, _ *client.Session, identity *client.TunnelIdentity) {
		s, host := launchVerified(t)
		if identity != nil {
			identity = &host
		}
		port := guest(t, func(c net.Conn) { io.Copy(c, c) })
		c := dial(t, s, client.TunnelRequest{Port: port, Identity: identity})
		if _, err := c.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		s.Close()
		<-c.Done()
		if o := c.Outcome(); o.End != client.TunnelFailed || !errors.Is(o.Err, client.ErrClosed) {
			t.Errorf("outcome %+v", o)
		}
		if _, err := s.DialTunnel(t.Context(), client.TunnelRequest{Port: port, Identity: identity}); !errors.Is(err, client.ErrClosed) {
			t.Errorf("a dial after Close: %v", err)
		}
	})
}
