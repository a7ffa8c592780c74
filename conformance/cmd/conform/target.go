package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"

	"microvms/agentd/api"
	"microvms/conformance/hostile"
	"microvms/conformance/process"
	"microvms/conformance/replay"
)

// hookLog is the number of entries that a daemon's hook log keeps (wire facts, section 3).
const hookLog = 64

// ownToken is installed on daemons that are started, or reset, for the hostile rows.
const ownToken = "conform-token"

func (c *cli) target() string {
	if c.Daemon != "" {
		return "binary"
	}
	return "endpoint"
}

// fresh starts a daemon, or resets the one behind the endpoint.
func (c *cli) fresh(ctx context.Context, o process.Options) (url string, pid int, stop func() error, err error) {
	if c.Daemon != "" {
		d, err := process.Start(ctx, c.Daemon, o)
		if err != nil {
			return "", 0, nil, err
		}
		return d.URL(), d.PID(), d.Stop, nil
	}
	// CONF-8: a path begins where the model does.
	if out, err := exec.CommandContext(ctx, "/bin/sh", "-c", c.Reset).CombinedOutput(); err != nil {
		return "", 0, nil, fmt.Errorf("cannot reset the daemon: %w: %s", err, bytes.TrimSpace(out))
	}
	return strings.TrimSuffix(c.Endpoint, "/"), 0, func() error { return nil }, nil
}

func (c *cli) startReplay(ctx context.Context, _ replay.Options) (*replay.Daemon, error) {
	url, _, stop, err := c.fresh(ctx, process.Options{})
	if err != nil {
		return nil, err
	}
	return &replay.Daemon{URL: url, LogSize: hookLog, Stop: stop}, nil
}

func (c *cli) startExec(ctx context.Context, o replay.ExecOptions) (*replay.ExecDaemon, error) {
	var env []string
	for _, n := range []struct {
		name  string
		value int
	}{
		{"AGENTD_STREAM_BUFFER_BYTES", o.Ring}, {"AGENTD_MAX_OUTPUT_BYTES", o.Head},
		// A linger or a retention that ends while a path is driven would be a transition that nobody asked for.
		{"AGENTD_OUTPUT_LINGER_SECS", 3600}, {"AGENTD_EXEC_TTL_SECS", 3600},
	} {
		if n.value != 0 {
			env = append(env, n.name+"="+strconv.Itoa(n.value))
		}
	}
	url, _, stop, err := c.fresh(ctx, process.Options{Env: env})
	if err != nil {
		return nil, err
	}
	return &replay.ExecDaemon{Daemon: &replay.Daemon{URL: url, LogSize: hookLog, Stop: stop}}, nil
}

func (c *cli) startHistories(ctx context.Context, ring uint64) (string, func() error, error) {
	var o process.Options
	if ring > 0 {
		o.Env = append(o.Env, "AGENTD_STREAM_BUFFER_BYTES="+strconv.FormatUint(ring, 10))
	}
	if c.Daemon == "" && c.Reset == "" {
		return host(c.Endpoint), func() error { return nil }, nil
	}
	url, _, stop, err := c.fresh(ctx, o)
	return host(url), stop, err
}

func host(url string) string { return strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/") }

// log is a daemon's log, read while it is written.
type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) bytes() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return bytes.Clone(l.buf.Bytes())
}

// startHostile returns a daemon with a token installed.
func (c *cli) startHostile(ctx context.Context) (hostile.Target, func() error, error) {
	if c.Daemon == "" && c.Reset == "" {
		return hostile.Target{URL: strings.TrimSuffix(c.Endpoint, "/"), Token: c.AgentToken}, func() error { return nil }, nil
	}
	l := &log{}
	url, pid, stop, err := c.fresh(ctx, process.Options{Env: []string{"AGENTD_LOG=debug", "AGENTD_OUTPUT_LINGER_SECS=1"}, Log: l})
	if err != nil {
		return hostile.Target{}, nil, err
	}
	t := hostile.Target{URL: url, Token: ownToken, PID: pid}
	if c.Daemon != "" {
		t.Log = l.bytes
	}
	if err := install(ctx, url); err != nil {
		_ = stop() // the first error is the one to tell
		return t, nil, err
	}
	if t.Identity, err = hostile.NewIdentity(); err != nil {
		_ = stop() // the first error is the one to tell
		return t, nil, err
	}
	return t, stop, nil
}

func install(ctx context.Context, url string) error {
	id, err := hostile.NewIdentity()
	if err != nil {
		return fmt.Errorf("cannot make the identity of verified tunnels: %w", err)
	}
	inner, err := json.Marshal(map[string]string{
		api.PayloadToken: ownToken, api.PayloadIdentitySeed: id.Seed, api.PayloadIdentityHostPublic: id.HostPublic,
	})
	if err != nil {
		return fmt.Errorf("cannot encode the payload: %w", err)
	}
	payload := string(inner)
	body, err := json.Marshal(api.RunHookEnvelope{RunHookPayload: &payload})
	if err != nil {
		return fmt.Errorf("cannot encode the envelope: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+api.HookPrefix+"/"+api.HookRun, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot make the run hook's request: %w", err)
	}
	req.Header.Set("Content-Type", api.MediaJSON)
	req.Close = true // a kept connection would hold one of the daemon's slots during the rows
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot call the run hook: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the run hook answered %d: the daemon is not fresh", resp.StatusCode)
	}
	return nil
}
