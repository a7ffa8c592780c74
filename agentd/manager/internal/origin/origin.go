// Package origin tells requests that a web page makes from those of programs.
// The manager has no authentication (manager facts, section 2.1), and a browser
// on the same machine reaches its loopback port for any page that it shows.
package origin

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Refusal says why the manager does not serve r, or "". A browser marks what a
// page asks for in one of three ways, and no known client does:
//
//   - Origin, on every WebSocket upgrade and every request but a plain GET;
//   - Sec-Fetch-Site, on every request to a loopback address. "none" is what a
//     person typed;
//   - Host. A page whose own name was rebound to this address is of the same
//     origin to its browser, but it cannot hide that name.
//
// Over a unix socket, which no page reaches, any Host is served; the other two
// are refused there as well.
func Refusal(r *http.Request) string {
	if _, ok := r.Header["Origin"]; ok {
		// SOCKET-2: by the presence of the header, empty or equal to Host included,
		// because only a browser sends one.
		return "requests of web pages are not served: the request has an Origin header"
	}
	for _, site := range r.Header["Sec-Fetch-Site"] {
		if site != "none" {
			// ADMIN-3: a page can make a browser send GET without an Origin, and
			// GET /genvm/{id} releases a run.
			return "requests of web pages are not served: the request has a Sec-Fetch-Site header"
		}
	}
	if !overUnix(r) && !addressed(r.Host) {
		// SOCKET-3: a name may have been rebound, an address cannot.
		return "the Host header must be an IP address or localhost"
	}
	return ""
}

// overUnix reports whether r came in over a unix socket.
func overUnix(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// addressed reports whether host, with or without a port, names an address and
// not a name that somebody's resolver gives out. Empty is what HTTP/1.0 sends.
func addressed(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if strings.EqualFold(name, "localhost") {
		return true
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}
