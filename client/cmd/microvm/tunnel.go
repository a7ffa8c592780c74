package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"microvms/agentd/api"
	"microvms/client"
)

// tunnelCommand is `microvm tunnel`.
type tunnelCommand struct {
	Ports    string `arg:"" name:"[local:]port" help:"The port in the VM. Before it may stand the local port, 0 for any free one; otherwise it is the same."`
	Address  string `default:"127.0.0.1" placeholder:"HOST" help:"Local address to listen on (${default}). Whoever reaches it reaches the VM's port."`
	Identity bool   `help:"Verified tunnels: only to the VM that holds the key in $$MICROVM_VM_PUBLIC_KEY, as the host whose seed is in $$MICROVM_HOST_SEED (base64)."`
	attach
}

// Environment of a verified tunnel. A seed is no argument: others see those.
const (
	envHostSeed    = "MICROVM_HOST_SEED"
	envVMPublicKey = "MICROVM_VM_PUBLIC_KEY"
)

// tunnelData is the data of microvm.tunnel.
type tunnelData struct {
	Local       string `json:"local"` // host:port
	Port        uint16 `json:"port"`  // in the VM
	Identity    bool   `json:"identity"`
	Connections int    `json:"connections"` // taken
	Failed      int    `json:"failed"`      // of these, not carried to a proper end
}

// listeningLine is the JSON line that says that connections are taken.
type listeningLine struct {
	Event string `json:"event"`
	Local string `json:"local"`
	Port  uint16 `json:"port"`
}

func (c *tunnelCommand) run(ctx context.Context, a *app) (*result, error) {
	local, port, err := c.ports()
	if err != nil {
		return nil, err
	}
	request := client.TunnelRequest{Port: port}
	if c.Identity {
		if request.Identity, err = a.identity(); err != nil {
			return nil, err
		}
	}
	return a.call(ctx, c.attach, true, func(ctx context.Context, s *client.Session) (*result, error) {
		listener, err := c.listen(s, local, port)
		if client.KindOf(err) == client.KindInvalidArg {
			return nil, err
		}
		if err != nil {
			return nil, &commandError{err: &client.Error{Kind: client.KindPrecondition, Message: "cannot take local connections", Err: err}, compact: true,
				suggestions: []string{fmt.Sprintf("give another local port, or any free one: microvm tunnel 0:%d", port)}}
		}
		f := &forward{app: a, session: s, request: request,
			data: tunnelData{Local: listener.Addr().String(), Port: port, Identity: c.Identity}}
		if err := f.serve(ctx, listener); err != nil {
			return nil, &commandError{err: err, compact: true}
		}
		return f.result(), nil
	})
}

// listen takes a local port. With a daemon on this machine it must not be the one
// that the tunnel leads to: each connection would make the next.
func (c *tunnelCommand) listen(s *client.Session, local string, port uint16) (net.Listener, error) {
	same := strconv.Itoa(int(port))
	here := isHere(c.Address) && endpointIsHere(s.Endpoint())
	if here && local == same {
		return nil, usage("the daemon is on this machine, so port %s would lead to itself: give another local port, or any free one, 0:%s", same, same)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(c.Address, local))
	if err != nil || !here || listener.Addr().(*net.TCPAddr).Port != int(port) {
		return listener, err
	}
	defer listener.Close() // the one free port that it must not be
	return net.Listen("tcp", net.JoinHostPort(c.Address, local))
}

// isHere says whether a connection to this machine's loopback reaches the host.
func isHere(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

func endpointIsHere(endpoint string) bool {
	u, err := url.Parse(endpoint)
	return err == nil && isHere(u.Hostname())
}

// ports reads [LOCAL:]PORT.
func (c *tunnelCommand) ports() (local string, port uint16, err error) {
	local, far, both := strings.Cut(c.Ports, ":")
	if !both {
		far = local
	}
	for _, text := range []string{local, far} {
		if n, err := strconv.ParseUint(text, 10, 16); err != nil || strconv.FormatUint(n, 10) != text {
			return "", 0, usage("%q is not PORT or LOCAL:PORT, with numbers up to 65535", c.Ports)
		}
	}
	n, _ := strconv.ParseUint(far, 10, 16)
	if n == 0 {
		return "", 0, usage("%q: 0 is no port of the VM; give the one that something listens on there", c.Ports)
	}
	return local, uint16(n), nil
}

// identity reads the keys of verified tunnels.
func (a *app) identity() (*client.TunnelIdentity, error) {
	var id client.TunnelIdentity
	for name, key := range map[string]*[32]byte{envHostSeed: &id.HostSeed, envVMPublicKey: &id.VMPublicKey} {
		data, err := base64.StdEncoding.DecodeString(a.env(name))
		if err != nil || len(data) != len(key) { // what it holds is not for an error
			return nil, usage("--identity: %s is not 32 bytes in base64", name)
		}
		copy(key[:], data)
	}
	return &id, nil
}

// forward carries local connections into the VM.
type forward struct {
	app     *app
	session *client.Session
	request client.TunnelRequest
	running sync.WaitGroup

	mu   sync.Mutex // guards data
	data tunnelData
}

// serve takes connections until ctx ends, and waits for those that it took.
func (f *forward) serve(ctx context.Context, listener net.Listener) error {
	defer f.running.Wait()
	defer listener.Close()
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	if f.app.format.json {
		f.app.stdout.Write(encode(listeningLine{"listening", f.data.Local, f.data.Port}, true))
	} else if !f.app.format.dense {
		fmt.Fprintf(f.app.stdout, "%s is port %d of the VM; Ctrl-C ends it\n", f.data.Local, f.data.Port)
	}
	for {
		conn, err := listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil // CLI-42: the interrupt is how a forward is ended
		}
		if err != nil {
			return &client.Error{Kind: client.KindPrecondition, Message: "cannot take local connections", Err: err}
		}
		f.mu.Lock()
		f.data.Connections++
		f.mu.Unlock()
		f.running.Go(func() {
			if err := f.carry(ctx, conn); err != nil && ctx.Err() == nil {
				f.failed(err)
			}
		})
	}
}

// failed counts a connection that was not carried to its end, and says why.
func (f *forward) failed(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data.Failed++
	fmt.Fprintf(f.app.stderr, "warning: a connection failed: %s\n", f.app.clean(describeTunnel(err)))
}

// describeTunnel adds to a refusal what its code means.
func describeTunnel(err error) string {
	var refused *client.TunnelRefusedError
	if errors.As(err, &refused) {
		switch refused.Code {
		case api.TunnelNoListener:
			return err.Error() + "; nothing listens on the port in the VM"
		case api.TunnelNoIdentity:
			return err.Error() + "; the VM was launched without an identity, so leave --identity out"
		case api.TunnelIdentityRefused:
			return err.Error() + "; the keys are not those of the launch"
		}
	}
	return err.Error()
}

// carry joins one local connection with a tunnel of its own. Its error says that
// the bytes did not all arrive, as far as that can be known.
func (f *forward) carry(ctx context.Context, local net.Conn) error {
	defer local.Close()
	defer context.AfterFunc(ctx, func() { local.Close() })()
	far, err := f.session.DialTunnel(ctx, f.request)
	if err != nil {
		reset(local)
		return err
	}
	up := make(chan struct{})
	go func() {
		defer close(up)
		_, _ = io.Copy(far, local) // its error is the tunnel's, or that of a peer that left
		_ = far.Close()            // the first side to end ends both; its error is the outcome's
	}()
	_, _ = io.Copy(local, far) // likewise
	outcome := far.Outcome()
	if outcome.End != client.TunnelClosed && outcome.End != client.TunnelClosedUnproven && outcome.End != client.TunnelOpen {
		// CLI-43: an end like any other would tell the local peer that all was said.
		reset(local)
	}
	local.Close()
	<-up
	return outcome.Err
}

// reset makes the close of a connection an error for its peer.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
}

func (f *forward) result() *result {
	d := f.data
	return &result{kind: "microvm.tunnel", data: d, compact: true,
		text:  fmt.Sprintf("%d connections, %d failed\n", d.Connections, d.Failed),
		dense: fmt.Sprintf("%s\t%d\t%d\t%d", d.Local, d.Port, d.Connections, d.Failed)}
}
