package client_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"microvms/client"
	"microvms/client/microvmtest"
)

// Discovery tells a default user from none, takes an older daemon's 404 for
// none, ignores keys that it does not know, and hides no other failure.
func TestDiscovery(t *testing.T) {
	t.Attr("requirement", "ACCOUNT-12")
	for _, c := range []struct {
		status int
		body   string
		want   *string
		err    error
	}{
		{200, `{"default_user":null}`, nil, nil},
		{200, `{"default_user":"app","later":[1]}`, new("app"), nil},
		{200, `{"default_user":""}`, new(""), nil},
		{200, `{"default_user":"1000:1000"}`, new("1000:1000"), nil},
		{404, ``, nil, nil},
		{401, ``, nil, client.ErrUnauthorized},
		{503, ``, nil, client.ErrNotBootstrapped},
	} {
		srv := microvmtest.New()
		srv.Intercept = func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
			if r.Method != http.MethodGet || r.URL.Path != "/v1/discovery" || r.Header.Get("Authorization") == "" {
				t.Errorf("asked %s %s", r.Method, r.URL.Path)
			}
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}
		d, err := srv.Session(t).Discovery(t.Context())
		if !errors.Is(err, c.err) || (err == nil) != (d != nil) {
			t.Errorf("%d %s: %+v, %v, want error %v", c.status, c.body, d, err, c.err)
			continue
		}
		if d != nil && ((d.DefaultUser == nil) != (c.want == nil) || c.want != nil && *d.DefaultUser != *c.want) {
			t.Errorf("%d %s: %+v, want %v", c.status, c.body, d, c.want)
		}
	}
	srv := microvmtest.New()
	srv.Intercept = func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { w.WriteHeader(500) }
	if d, err := srv.Session(t).Discovery(t.Context()); err == nil {
		t.Errorf("status 500: %+v, want an error", d)
	}
}

// The fake daemon publishes what it was given.
func TestFakeDiscovery(t *testing.T) {
	srv := microvmtest.New()
	for _, want := range []*string{nil, new("app")} {
		srv.DefaultUser = want
		if d, err := srv.Session(t).Discovery(t.Context()); err != nil || d.DefaultUser != want && *d.DefaultUser != *want {
			t.Errorf("%+v, %v, want %v", d, err, want)
		}
	}
}
