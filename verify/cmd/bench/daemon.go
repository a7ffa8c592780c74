package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// daemon is the shipped agentd, as a process of its own, with the token
// installed. It is spoken to by plain HTTP, so that nothing of the client is in
// the figures.
type daemon struct {
	*process
	http *http.Client
}

const agentToken = "bench-0123456789abcdef"

// startDaemon runs the daemon on a free loopback port. It changes nothing of
// the machine: the repair of its identity is off.
func (w *workshop) startDaemon(ctx context.Context) (*daemon, error) {
	bin, err := w.program(ctx, "agentd/cmd/agentd", runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(bin, "--listen", "127.0.0.1")
	cmd.Dir = w.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "AGENTD_PORT=0", "AGENTD_REPAIR_IDENTITY=false", "AGENTD_LOG=info"}
	p, err := startProcess(ctx, cmd, logAddress)
	if err != nil {
		return nil, err
	}
	d := &daemon{process: p, http: newClient()}
	launch := map[string]any{"agent_token": agentToken}
	if err := identity(launch); err != nil {
		d.stop()
		return nil, err
	}
	payload, _ := json.Marshal(launch)
	body, _ := json.Marshal(map[string]string{"runHookPayload": string(payload)})
	if _, err := d.post(ctx, "/aws/lambda-microvms/runtime/v1/run", body); err != nil {
		d.stop()
		return nil, err
	}
	return d, nil
}

func (d *daemon) stop() {
	d.http.CloseIdleConnections()
	d.process.stop()
}

// newClient returns a client that keeps one connection for each request in
// flight, and no more of them than the daemon admits.
func newClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64}}
}

// logAddress finds the address in the daemon's log.
func logAddress(line string) (string, bool) {
	var entry struct{ Msg, Addr string }
	if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "listening" {
		return "", false
	}
	return entry.Addr, entry.Addr != ""
}

// peerAddress finds it in what the peer server prints.
func peerAddress(line string) (string, bool) {
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), listening+" ")
	return addr, ok
}

// startPeer runs this program as the peer server.
func startPeer(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startProcess(ctx, exec.Command(self, "peer-server"), peerAddress)
}

// request sends a request and returns the response, whose status is 200.
func (d *daemon) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+d.addr+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+agentToken)
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		detail, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s answered %d: %s", method, path, resp.StatusCode, detail)
	}
	return resp, nil
}

// post sends a body and returns the answer's.
func (d *daemon) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	resp, err := d.request(ctx, http.MethodPost, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// start starts a command.
func (d *daemon) start(ctx context.Context, id string, command ...string) error {
	body, err := json.Marshal(map[string]any{"exec_id": id, "command": command})
	if err != nil {
		return err
	}
	_, err = d.post(ctx, "/v1/exec/start", body)
	return err
}

// follow reads the output of a command to its exit event.
func (d *daemon) follow(ctx context.Context, id string, took func(n int)) (ending, error) {
	resp, err := d.request(ctx, http.MethodGet, "/v1/exec/"+id+"/stream", nil)
	if err != nil {
		return ending{}, err
	}
	defer resp.Body.Close()
	return readEvents(resp.Body, took)
}

// exec runs a command from its request to its exit event.
func (d *daemon) exec(ctx context.Context, id string, command ...string) (ending, error) {
	if err := d.start(ctx, id, command...); err != nil {
		return ending{}, err
	}
	return d.follow(ctx, id, nil)
}

func (d *daemon) ack(ctx context.Context, id string) error {
	_, err := d.post(ctx, "/v1/exec/"+id+"/ack", nil)
	return err
}

// get reads an answer to its end and returns its size.
func get(ctx context.Context, c *http.Client, url string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	req.Header.Set("Authorization", "Bearer "+agentToken)
	resp, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answered %d", url, resp.StatusCode)
	}
	return io.Copy(io.Discard, resp.Body)
}
