package replay

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"microvms/agentd/api"
)

// wire speaks wire version 1 to one daemon, as plain HTTP: the client library
// is not used, so that its mistakes cannot hide the daemon's.
type wire struct {
	url string
	// once opens a connection for each request, so that a request can be held or cut without touching another;
	// kept reuses connections, for reads.
	once, kept *http.Client
}

func newWire(url string) *wire {
	return &wire{
		url:  url,
		once: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
		kept: &http.Client{Transport: &http.Transport{}},
	}
}

func (w *wire) close() { w.kept.CloseIdleConnections() }

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// call sends a request. authorization is the header's value; empty means none.
func (w *wire) call(ctx context.Context, c *http.Client, method, path, authorization, contentType string, body string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the answer to %s %s: %w", method, path, err)
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: data}
	return a, a.check()
}

// check holds every answer to the rules that all answers share.
func (a *answer) check() error {
	if a.header.Get(api.HeaderVersion) == "" {
		return fmt.Errorf("an answer with status %d has no %s header", a.status, api.HeaderVersion)
	}
	switch a.status {
	case http.StatusUnauthorized, http.StatusServiceUnavailable:
		if len(a.body) != 0 || a.header.Get("WWW-Authenticate") != "" {
			return fmt.Errorf("an answer with status %d has a body or a challenge", a.status)
		}
	}
	return nil
}

// health reads GET /v1/health.
func (w *wire) health(ctx context.Context) (*api.Health, error) {
	a, err := w.call(ctx, w.kept, "GET", api.PathHealth, "", "", "")
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, fmt.Errorf("health answered %d", a.status)
	}
	var h api.Health
	if err := json.Unmarshal(a.body, &h); err != nil {
		return nil, fmt.Errorf("cannot read health: %w", err)
	}
	return &h, nil
}

// status returns how a read with the bearer is answered.
func (w *wire) status(ctx context.Context, path, authorization string) (int, error) {
	a, err := w.call(ctx, w.kept, "GET", path, authorization, "", "")
	if err != nil {
		return 0, err
	}
	return a.status, nil
}

// output follows the exec's stream to its exit event and returns the standard
// output from the first byte on. ok is false when the exec is not known.
func (w *wire) output(ctx context.Context, exec, authorization string) (out string, ok bool, err error) {
	a, err := w.call(ctx, w.kept, "GET", strings.Replace(api.PathExecStream, "{id}", exec, 1), authorization, "", "")
	switch {
	case err != nil:
		return "", false, err
	case a.status == http.StatusNotFound:
		return "", false, nil
	case a.status != http.StatusOK:
		return "", false, fmt.Errorf("the stream of %q answered %d", exec, a.status)
	}
	out, err = standardOutput(a.body)
	return out, true, err
}

// standardOutput reads a whole event stream.
func standardOutput(body []byte) (string, error) {
	var out strings.Builder
	event := ""
	scan := bufio.NewScanner(strings.NewReader(string(body)))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		name, value, _ := strings.Cut(scan.Text(), ": ")
		switch {
		case name == "event":
			event = value
		case name == "data" && event == "output":
			var o struct{ Stream, Output string }
			if err := json.Unmarshal([]byte(value), &o); err != nil {
				return "", fmt.Errorf("cannot read an output event: %w", err)
			}
			data, err := base64.StdEncoding.DecodeString(o.Output)
			if err != nil {
				return "", fmt.Errorf("cannot decode an output event: %w", err)
			}
			if o.Stream == "stdout" {
				out.Write(data)
			}
		case name == "data" && event == "exit":
			return out.String(), nil
		case name == "data" && event == "gap":
			return "", fmt.Errorf("output was lost from a stream read from its start")
		}
	}
	return "", fmt.Errorf("the stream ended without an exit event")
}
