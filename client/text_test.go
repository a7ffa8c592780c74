package client_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"microvms/agentd/api"
	"microvms/client"
)

// What is not UTF-8 is refused before the first request: JSON would replace it,
// and two different ids or commands would become one.
func TestTextsThatAreNotUTF8AreRefused(t *testing.T) {
	t.Attr("requirement", "CLIENT-30")
	requests := 0
	s, err := client.New("http://x", "t", client.WithHTTPClient(&http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
		requests++
		return nil, errors.New("nothing may be sent")
	})}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	const bad = "\xff"
	cwd := bad
	for name, call := range map[string]func() error{
		"id of a start": func() error {
			_, err := s.Start(ctx, api.StartRequest{ExecID: bad, Command: []string{"true"}})
			return err
		},
		"command": func() error { _, err := s.Start(ctx, api.StartRequest{Command: []string{"echo", bad}}); return err },
		"environment": func() error {
			_, err := s.Start(ctx, api.StartRequest{Command: []string{"true"}, Env: map[string]string{"A": bad}})
			return err
		},
		"environment name": func() error {
			_, err := s.Start(ctx, api.StartRequest{Command: []string{"true"}, Env: map[string]string{bad: "a"}})
			return err
		},
		"directory": func() error {
			_, err := s.Start(ctx, api.StartRequest{Command: []string{"true"}, Cwd: &cwd})
			return err
		},
		"user": func() error {
			_, err := s.Start(ctx, api.StartRequest{Command: []string{"true"}, User: api.Name(bad)})
			return err
		},
		"shell": func() error {
			_, err := s.Start(ctx, api.StartRequest{Command: []string{"true"}, Shell: api.Shell{Name: bad, IsNamed: true}})
			return err
		},
		"id of a poll": func() error { _, err := s.Poll(ctx, bad); return err },
		"id of an ack": func() error { _, err := s.Ack(ctx, bad); return err },
		"id of a kill": func() error { _, err := s.Kill(ctx, bad); return err },
		"id of stdin":  func() error { _, err := s.Stdin(ctx, bad, strings.NewReader("x")); return err },
	} {
		err := call()
		if client.KindOf(err) != client.KindInvalidArg || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%s: error %v, want one about UTF-8", name, err)
		}
	}
	if requests != 0 {
		t.Errorf("%d requests were sent", requests)
	}
}
