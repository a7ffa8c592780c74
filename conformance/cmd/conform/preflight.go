package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"microvms/agentd/api"
	"microvms/conformance/process"
)

// preflight makes sure that there is a daemon to judge, so that a wrong path, address or token is said to be that, and
// not held against the daemon.
func (c *cli) preflight(ctx context.Context) error {
	if c.Manager != "" {
		return c.preflightManager(ctx)
	}
	if c.Daemon != "" {
		d, err := process.Start(ctx, c.Daemon, process.Options{})
		if err != nil {
			return err
		}
		if err := d.Stop(); err != nil {
			return fmt.Errorf("the daemon %q starts, but does not end with status 0 at SIGTERM: %w", c.Daemon, err)
		}
		return nil
	}
	url, token := strings.TrimSuffix(c.Endpoint, "/"), c.AgentToken
	if c.Reset != "" {
		if _, _, _, err := c.fresh(ctx, process.Options{}); err != nil {
			return err
		}
		return status(ctx, url+api.PathHealth, "", http.StatusOK)
	}
	return status(ctx, url+api.PathProcs, token, http.StatusOK)
}

// status asks for a path and compares the answer's status.
func status(ctx context.Context, url, token string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("cannot make a request for %q: %w", url, err)
	}
	req.Close = true // a kept connection would hold one of the daemon's slots
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the daemon: %w", err)
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == want:
		return nil
	case resp.StatusCode == http.StatusUnauthorized:
		return errors.New("the daemon answers 401: --agent-token is not the token that is installed there")
	case resp.StatusCode == http.StatusServiceUnavailable:
		return errors.New("the daemon answers 503: no token is installed there; bootstrap it, or give --reset")
	}
	return fmt.Errorf("the daemon answers %d to GET %s, and %d was wanted: is this a daemon of wire version 1?", resp.StatusCode, url, want)
}
