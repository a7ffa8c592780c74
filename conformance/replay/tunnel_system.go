package replay

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
	"strconv"
	"strings"
	"sync"
	"syscall"

	"microvms/agentd/api"
	"microvms/agentd/trace"
	noise "microvms/agentd/tunnel"
	"microvms/client"
	"microvms/model/tunnel"
)

// tunnelSystem is the real client and the real daemon with a path between them,
// and a guest that the driver speaks for.
type tunnelSystem struct {
	daemon  *Daemon
	path    *tunnelPath
	session *client.Session
	request client.TunnelRequest
	guest   *tunnelGuest

	mu       sync.Mutex
	changed  chan struct{}
	tunnel   *client.Tunnel // nil until the handshake is over
	dialErr  error
	received []byte
	wg       sync.WaitGroup
	stop     context.CancelFunc // ends a dial that waits
}

const tunnelToken = "replay-tunnel"

func repeated(b byte) (k [noise.KeySize]byte) {
	for i := range k {
		k[i] = b
	}
	return k
}

// newTunnelSystem starts a daemon that was launched with an identity.
func newTunnelSystem(ctx context.Context, start Starter, c tunnel.Config) (_ *tunnelSystem, err error) {
	s := &tunnelSystem{changed: make(chan struct{}), stop: func() {}}
	defer func() {
		if err != nil {
			_ = s.close()
		}
	}()
	if s.daemon, err = start(ctx, Options{LogSize: 1}); err != nil {
		return nil, err
	}
	if s.guest, err = newTunnelGuest(s.bump); err != nil {
		return nil, err
	}
	vm, host := repeated(7), repeated(9)
	hostPublic, err := noise.PublicKey(host)
	if err != nil {
		return nil, err
	}
	vmPublic, err := noise.PublicKey(vm)
	if err != nil {
		return nil, err
	}
	if err := launchWith(ctx, s.daemon.URL, vm, hostPublic); err != nil {
		return nil, err
	}
	if c.Caller == tunnel.TokenHolder {
		host = repeated(0x55)
	}
	s.request = client.TunnelRequest{Port: s.guest.port(), Identity: &client.TunnelIdentity{HostSeed: host, VMPublicKey: vmPublic}}
	rewrite := func(head string) string { return head }
	if c.ServedPort > 1 {
		// The client asks for a port, and the path makes it the guest's.
		s.request.Port = 1
		rewrite = func(head string) string {
			return strings.Replace(head, "port=1 ", "port="+strconv.Itoa(int(s.guest.port()))+" ", 1)
		}
	}
	if s.path, err = newTunnelPath(strings.TrimPrefix(s.daemon.URL, "http://"), rewrite, s.bump); err != nil {
		return nil, err
	}
	s.session, err = client.New(s.path.url(), tunnelToken)
	return s, err
}

// launchWith installs the token and the identity.
func launchWith(ctx context.Context, url string, vm, hostPublic [noise.KeySize]byte) error {
	payload, err := json.Marshal(map[string]string{
		api.PayloadToken: tunnelToken, api.PayloadIdentitySeed: base64.StdEncoding.EncodeToString(vm[:]),
		api.PayloadIdentityHostPublic: base64.StdEncoding.EncodeToString(hostPublic[:]),
	})
	if err != nil {
		return err
	}
	text := string(payload)
	body, err := json.Marshal(api.RunHookEnvelope{RunHookPayload: &text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+api.HookPrefix+"/"+api.HookRun, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", api.MediaJSON)
	req.Close = true
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the run hook answered %d", resp.StatusCode)
	}
	return nil
}

// bump wakes those that wait for a change.
func (s *tunnelSystem) bump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.changed)
	s.changed = make(chan struct{})
}

// hello lets the client ask for its tunnel.
func (s *tunnelSystem) hello() {
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.wg.Go(func() {
		t, err := s.session.DialTunnel(ctx, s.request)
		s.mu.Lock()
		s.tunnel, s.dialErr = t, err
		s.mu.Unlock()
		s.bump()
		if err != nil {
			return
		}
		s.wg.Go(func() {
			<-t.Done()
			s.bump()
		})
		buf := make([]byte, 64)
		for {
			n, err := t.Read(buf)
			s.mu.Lock()
			s.received = append(s.received, buf[:n]...)
			s.mu.Unlock()
			s.bump()
			if err != nil {
				return
			}
		}
	})
}

// conn returns the client's tunnel, once it has one.
func (s *tunnelSystem) conn() *client.Tunnel {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tunnel
}

// clientEnd says how the client's tunnel ended, in the words of the model.
func (s *tunnelSystem) clientEnd() (tunnel.End, error) {
	s.mu.Lock()
	t, dialErr := s.tunnel, s.dialErr
	s.mu.Unlock()
	if dialErr != nil {
		var refused *client.TunnelRefusedError
		if errors.As(dialErr, &refused) {
			return tunnel.Refused, expectCode(refused.Code)
		}
		return tunnel.Failed, nil
	}
	if t == nil {
		return tunnel.NoEnd, nil
	}
	o := t.Outcome()
	switch o.End {
	case client.TunnelClosed:
		return tunnel.Closed, nil
	case client.TunnelTruncated:
		return tunnel.Truncated, nil
	case client.TunnelClosedUnproven:
		return tunnel.ClosedUnproven, nil
	case client.TunnelRefused:
		return tunnel.Refused, expectCode(o.Code)
	case client.TunnelFailed:
		return tunnel.Failed, nil
	}
	return tunnel.NoEnd, nil
}

func expectCode(code int) error {
	if code != api.TunnelIdentityRefused {
		return fmt.Errorf("the tunnel was refused with %d", code)
	}
	return nil
}

// farWords says what the daemon has recorded: established, ready, dialed, done.
func (s *tunnelSystem) farWords() (established, ready, dialed, done bool) {
	for _, e := range s.daemon.Recorder.Events() {
		switch e.Action {
		case trace.TunnelHello:
			established = e.Attrs[0].Value == true
		case trace.TunnelReady:
			ready = true
		case trace.TunnelDial:
			dialed = true
		case trace.TunnelFinish, trace.HelloDeadline, trace.ReadyDeadline:
			done = true
		}
	}
	return established, ready, dialed, done
}

func (s *tunnelSystem) close() error {
	s.stop()
	if s.path != nil {
		s.path.close()
	}
	if t := s.conn(); t != nil {
		_ = t.Close()
	}
	if s.session != nil {
		_ = s.session.Close()
	}
	s.wg.Wait()
	if s.guest != nil {
		s.guest.close()
	}
	if s.daemon == nil {
		return nil
	}
	return s.daemon.Stop()
}

// tunnelGuest is a program in the guest that listens on a port.
type tunnelGuest struct {
	listener net.Listener
	bump     func()

	mu       sync.Mutex
	conn     *net.TCPConn
	received []byte
	end      tunnel.Guest
	wg       sync.WaitGroup
}

func newTunnelGuest(bump func()) (*tunnelGuest, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	g := &tunnelGuest{listener: l, bump: bump}
	g.wg.Go(g.serve)
	return g, nil
}

func (g *tunnelGuest) port() uint16 { return uint16(g.listener.Addr().(*net.TCPAddr).Port) }

func (g *tunnelGuest) serve() {
	c, err := g.listener.Accept()
	if err != nil {
		return
	}
	g.mu.Lock()
	g.conn = c.(*net.TCPConn)
	g.mu.Unlock()
	g.bump()
	buf := make([]byte, 64)
	for {
		n, err := c.Read(buf)
		g.mu.Lock()
		g.received = append(g.received, buf[:n]...)
		switch {
		case err == io.EOF:
			g.end = tunnel.Eof
		case errors.Is(err, syscall.ECONNRESET):
			g.end = tunnel.Reset
		}
		g.mu.Unlock()
		g.bump()
		if err != nil {
			c.Close() // it leaves like a program whose peer has left
			return
		}
	}
}

// open returns the connection, nil while the daemon has not dialed.
func (g *tunnelGuest) open() *net.TCPConn {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn
}

func (g *tunnelGuest) saw() (connected bool, received string, end tunnel.Guest) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.conn != nil, string(g.received), g.end
}

func (g *tunnelGuest) close() {
	g.listener.Close()
	if c := g.open(); c != nil {
		c.Close()
	}
	g.wg.Wait()
}
