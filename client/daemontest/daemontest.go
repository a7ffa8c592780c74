// Package daemontest runs the real daemon as a process for the client's tests.
// The binary is built from source once a test process; the client never links
// the daemon, so that only the wire joins the two.
package daemontest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"microvms/agentd/api"
	"microvms/client"
)

// Token is the token that Bootstrap installs.
const Token = "daemontest-token"

// Daemon is a running daemon.
type Daemon struct {
	Endpoint string
	cmd      *exec.Cmd
	drained  chan struct{}
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "daemontest")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "agentd")
	if out, err := exec.Command("go", "build", "-o", bin, "microvms/agentd/cmd/agentd").CombinedOutput(); err != nil {
		return bin, fmt.Errorf("cannot build the daemon: %w\n%s", err, out)
	}
	return bin, nil
})

// Remove deletes the binary, if it was built. Call it at the end of TestMain.
func Remove() {
	if bin, _ := build(); bin != "" {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
}

// Start runs a daemon on a free loopback port, with extra settings, and waits
// until it listens. It changes nothing on the machine.
func Start(settings ...string) (*Daemon, error) {
	bin, err := build()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, "--listen", "127.0.0.1")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "AGENTD_PORT=0", "AGENTD_REPAIR_IDENTITY=false"}, settings...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	d := &Daemon{cmd: cmd, drained: make(chan struct{})}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var line struct{ Msg, Addr string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			d.Endpoint = "http://" + line.Addr
			break
		}
	}
	go func() {
		defer close(d.drained)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	if d.Endpoint == "" {
		_ = d.Stop()
		return nil, fmt.Errorf("the daemon ended before it listened")
	}
	return d, nil
}

// Bootstrap installs Token, and env as the launch environment.
func (d *Daemon) Bootstrap(env map[string]string) error {
	payload, err := json.Marshal(map[string]any{api.PayloadToken: Token, api.PayloadEnv: env})
	if err != nil {
		return err
	}
	text := string(payload)
	body, err := json.Marshal(api.RunHookEnvelope{RunHookPayload: &text})
	if err != nil {
		return err
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := plain.Post(d.Endpoint+api.HookPrefix+"/"+api.HookRun, api.MediaJSON, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the run hook answered %d", resp.StatusCode)
	}
	return nil
}

// Stop kills all commands, ends the daemon and waits for it.
func (d *Daemon) Stop() error {
	if session, err := client.New(d.Endpoint, Token); err == nil {
		ctx := context.Background()
		groups, _ := session.Procs(ctx) // fails when not bootstrapped: then there are none
		for _, g := range groups {
			if len(g.Pids) > 0 {
				_, _ = session.Kill(ctx, g.ExecID)
			}
		}
		_ = session.Close()
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	<-d.drained
	return d.cmd.Wait()
}
