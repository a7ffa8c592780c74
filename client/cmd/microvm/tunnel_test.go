package main

import (
	"bufio"
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
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
	"microvms/client/daemontest"
)

// forwarding is `microvm tunnel` under way.
type forwarding struct {
	t          *testing.T
	local      string
	lines      *bufio.Scanner
	interrupts chan os.Signal
	code       chan int
	stderr     *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	bytes.Buffer
	wrote chan struct{}
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer func() {
		select {
		case b.wrote <- struct{}{}:
		default:
		}
	}()
	return b.Buffer.Write(p)
}

func (b *lockedBuffer) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.String()
}

// forwardTo starts `microvm tunnel --json 0:PORT` with a daemon.
func forwardTo(t *testing.T, d *daemontest.Daemon, port uint16, env map[string]string, flags ...string) *forwarding {
	t.Helper()
	out, stdout := io.Pipe()
	f := &forwarding{t: t, lines: bufio.NewScanner(out), interrupts: make(chan os.Signal, 1), code: make(chan int, 1),
		stderr: &lockedBuffer{wrote: make(chan struct{}, 1)}}
	known := map[string]string{"MICROVM_ENDPOINT": d.Endpoint, "MICROVM_AGENT_TOKEN": daemontest.Token}
	a := newApp(strings.NewReader(""), stdout, f.stderr, func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return known[name]
	})
	a.interrupts = f.interrupts
	args := append([]string{"tunnel", "--json", fmt.Sprintf("0:%d", port)}, flags...)
	go func() {
		f.code <- a.run(context.Background(), args)
		stdout.Close()
	}()
	var line listeningLine
	if !f.lines.Scan() || json.Unmarshal(f.lines.Bytes(), &line) != nil || line.Event != "listening" || line.Port != port {
		t.Fatalf("first line %q, stderr %q", f.lines.Text(), f.stderr.text())
	}
	f.local = line.Local
	return f
}

// end interrupts the command and returns its code and the data of its envelope.
func (f *forwarding) end() (int, tunnelData) {
	f.t.Helper()
	f.interrupts <- os.Interrupt
	if !f.lines.Scan() {
		f.t.Fatalf("no envelope, stderr %q", f.stderr.text())
	}
	var env struct {
		Status, Type string
		Data         tunnelData
	}
	if err := json.Unmarshal(f.lines.Bytes(), &env); err != nil || env.Status != "ok" || env.Type != "microvm.tunnel" {
		f.t.Errorf("envelope %q, %v", f.lines.Text(), err)
	}
	return <-f.code, env.Data
}

// say sends text over a local connection and reads what comes back until its end.
// A reset may show as early as in the dial.
func (f *forwarding) say(text string) (string, error) {
	f.t.Helper()
	conn, err := net.Dial("tcp", f.local)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	b, err := io.ReadAll(conn)
	return string(b), err
}

// listenIn serves a port of the loopback, which is the VM's too.
func listenIn(t *testing.T, serve func(net.Conn)) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	t.Cleanup(func() { l.Close(); conns.Wait() })
	conns.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conns.Go(func() { serve(c); c.Close() })
		}
	})
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

// unlistened is a port that nobody listens on, nor can for as long as the test
// lasts.
func unlistened(t *testing.T) uint16 {
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

// launched starts a daemon whose launch brought an identity, and gives the
// host's environment.
func launched(t *testing.T) (*daemontest.Daemon, map[string]string) {
	t.Helper()
	d, err := daemontest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Stop() })
	var host, vm [32]byte
	for i := range host {
		host[i], vm[i] = 9, 7
	}
	hostPublic, err1 := tunnel.PublicKey(host)
	vmPublic, err2 := tunnel.PublicKey(vm)
	text := func(key [32]byte) string { return base64.StdEncoding.EncodeToString(key[:]) }
	payload, err3 := json.Marshal(map[string]string{api.PayloadToken: daemontest.Token,
		api.PayloadIdentitySeed: text(vm), api.PayloadIdentityHostPublic: text(hostPublic)})
	body, err4 := json.Marshal(map[string]string{"runHookPayload": string(payload)})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
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
	return d, map[string]string{envHostSeed: text(host), envVMPublicKey: text(vmPublic)}
}

// A local connection is one to the VM's port, plain or verified, many at once; an
// interrupt ends them all and is no failure.
func TestTunnelForwards(t *testing.T) {
	t.Attr("requirement", "CLI-42")
	d, env := launched(t)
	port := listenIn(t, func(c net.Conn) {
		line, _ := bufio.NewReader(c).ReadString('\n')
		io.WriteString(c, strings.Repeat(strings.ToUpper(line), 10000))
	})
	for _, flags := range [][]string{nil, {"--identity"}} {
		f := forwardTo(t, d, port, env, flags...)
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				want := strings.Repeat(fmt.Sprintf("HELLO %d\n", i), 10000)
				if got, err := f.say(fmt.Sprintf("hello %d\n", i)); got != want || err != nil {
					t.Errorf("%q: %d bytes, %v", flags, len(got), err)
				}
			})
		}
		wg.Wait()
		open, err := net.Dial("tcp", f.local) // says nothing, and is ended with the command
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(open, "h")
		code, data := f.end()
		if _, err := io.ReadAll(open); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Error(err)
		}
		open.Close()
		if code != 0 || data.Connections < 5 || data.Connections > 6 || data.Failed != 0 || data.Local != f.local || data.Port != port || data.Identity != (flags != nil) {
			t.Errorf("%q: code %d, %+v, stderr %q", flags, code, data, f.stderr.text())
		}
	}
}

// A connection that cannot be carried is a reset for its local end and a warning
// that says why; the others go on.
func TestTunnelResetsWhatFails(t *testing.T) {
	t.Attr("requirement", "CLI-43")
	d, env := launched(t)
	port := unlistened(t)
	wrong := map[string]string{envHostSeed: env[envHostSeed], envVMPublicKey: env[envHostSeed]}
	for name, c := range map[string]struct {
		env   map[string]string
		flags []string
		want  string
	}{
		"nobody listens": {nil, nil, "4502"},
		"wrong key":      {wrong, []string{"--identity"}, "the keys are not those of the launch"},
		"wrong token":    {nil, []string{"--agent-token", "not-the-token"}, "401"},
	} {
		f := forwardTo(t, d, port, c.env, c.flags...)
		if got, err := f.say("x"); got != "" || err == nil {
			t.Errorf("%s: read %q, %v, want a reset", name, got, err)
		}
		for !strings.Contains(f.stderr.text(), "\n") {
			<-f.stderr.wrote
		}
		code, data := f.end()
		if text := f.stderr.text(); !strings.Contains(text, "warning: a connection failed: ") || !strings.Contains(text, c.want) || strings.Contains(text, "not-the-token") {
			t.Errorf("%s: stderr %q", name, text)
		}
		if code != 0 || data.Connections != 1 || data.Failed != 1 {
			t.Errorf("%s: code %d, %+v", name, code, data)
		}
	}
}
