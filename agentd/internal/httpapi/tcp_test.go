package httpapi

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"microvms/agentd/api"
)

// FuzzTunnelQuery checks that no query crashes the parser, and that what it
// accepts is what a second, lenient parser reads.
func FuzzTunnelQuery(f *testing.F) {
	for _, q := range []string{"", "port=80", "port=0&identity=true", "port=65536", "port=%38%30", "port=+1", "identity=1&port=1&port=2", "port=80&x=%zz", "port=1;identity=true", "port=080&identity=0"} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		q, detail := parseTunnelQuery(query)
		if detail != "" {
			return
		}
		values, _ := url.ParseQuery(query) // reads on after what it cannot decode
		if len(values["port"]) > 1 || len(values["identity"]) > 1 {
			t.Fatalf("query %q: a key that is there twice was accepted", query)
		}
		if n, err := strconv.ParseUint(values.Get("port"), 10, 16); values.Has("port") && (err != nil || uint16(n) != q.Port) {
			t.Fatalf("query %q: port %d, a second parser reads %q", query, q.Port, values.Get("port"))
		}
		if want := values.Get("identity"); values.Has("identity") && q.Identity != (want == "true" || want == "1") {
			t.Fatalf("query %q: identity %v, a second parser reads %q", query, q.Identity, want)
		}
	})
}

// TestOffered checks which offers count: the exact word in any line of the
// header.
func TestOffered(t *testing.T) {
	t.Attr("requirement", "TUNNEL-2")
	for _, c := range []struct {
		lines []string
		want  bool
	}{
		{nil, false}, {[]string{"lambda-microvms"}, true}, {[]string{"a, lambda-microvms ,b"}, true}, {[]string{"a", "lambda-microvms"}, true},
		{[]string{"Lambda-Microvms"}, false}, {[]string{"lambda-microvms.port.9000"}, false}, {[]string{""}, false},
	} {
		if got := offered(http.Header{"Sec-Websocket-Protocol": c.lines}, api.TunnelSubprotocol); got != c.want {
			t.Errorf("offered(%q) = %v, want %v", c.lines, got, c.want)
		}
	}
}
