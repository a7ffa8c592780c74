package origin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestRefusal judges each mark that a browser leaves, over TCP and over a unix
// socket.
func TestRefusal(t *testing.T) {
	t.Attr("requirement", "SOCKET-2")
	t.Attr("requirement", "SOCKET-3")
	t.Attr("requirement", "ADMIN-3")
	tcp, unix := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}, &net.UnixAddr{Name: "/s", Net: "unix"}
	for _, c := range []struct {
		name    string
		host    string
		header  http.Header
		local   net.Addr
		refused bool
	}{
		{"a program", "127.0.0.1:3999", nil, tcp, false},
		{"a program by name", "LocalHost:3999", nil, tcp, false},
		{"a program by name without a port", "localhost", nil, tcp, false},
		{"a program over IPv6", "[::1]:3999", nil, tcp, false},
		{"a program over IPv6 without a port", "[::1]", nil, tcp, false},
		{"a program without a host", "", nil, tcp, false},
		{"a foreign page", "127.0.0.1:3999", http.Header{"Origin": {"https://example.com"}}, tcp, true},
		{"a page of the same name", "127.0.0.1:3999", http.Header{"Origin": {"http://127.0.0.1:3999"}}, tcp, true},
		{"a page without a name", "127.0.0.1:3999", http.Header{"Origin": {"null"}}, tcp, true},
		{"an empty origin", "127.0.0.1:3999", http.Header{"Origin": {""}}, tcp, true},
		{"a page over a unix socket", "localhost", http.Header{"Origin": {"https://example.com"}}, unix, true},
		{"an image of a page", "127.0.0.1:3999", http.Header{"Sec-Fetch-Site": {"cross-site"}}, tcp, true},
		{"an image of a rebound page", "127.0.0.1:3999", http.Header{"Sec-Fetch-Site": {"same-origin"}}, tcp, true},
		{"two answers about the page", "127.0.0.1:3999", http.Header{"Sec-Fetch-Site": {"none", "cross-site"}}, tcp, true},
		{"a person", "127.0.0.1:3999", http.Header{"Sec-Fetch-Site": {"none"}}, tcp, false},
		{"a rebound name", "rebound.example:3999", nil, tcp, true},
		{"a rebound name without a port", "rebound.example", nil, tcp, true},
		{"a name that begins like an address", "127.0.0.1.rebound.example:3999", nil, tcp, true},
		{"a name that begins like localhost", "localhost.rebound.example", nil, tcp, true},
		{"any name over a unix socket", "rebound.example", nil, unix, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/status", nil)
			r.Host = c.host
			if c.header != nil {
				r.Header = c.header
			}
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, c.local))
			if reason := Refusal(r); (reason != "") != c.refused {
				t.Errorf("Refusal = %q, want refused %v", reason, c.refused)
			}
		})
	}
}
