package manager

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// address is where a manager listens.
type address struct {
	socket string // path of a unix socket; empty: TCP
	base   string // URL without a path
}

// parseAddress reads the forms that Dial documents.
func parseAddress(text string) (address, error) {
	for _, scheme := range []string{"unix://", "unix:"} {
		if path, ok := strings.CutPrefix(text, scheme); ok {
			if path == "" {
				return address{}, invalidArg("manager address %q: names no socket", text)
			}
			// MCLIENT-17: the name that managers behind a socket are called by.
			return address{socket: path, base: "http://localhost"}, nil
		}
	}
	if isPath(text) {
		return address{socket: text, base: "http://localhost"}, nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, invalidArg("manager address: not a path, URL or host:port; give one such as /run/manager.sock or 127.0.0.1:3999")
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return address{}, invalidArg("manager address: scheme %q is none of unix, http, https, ws, wss", u.Scheme)
	}
	switch {
	case u.User != nil:
		return address{}, invalidArg("manager address: must not hold a user or password: the manager asks for none")
	case u.Hostname() == "":
		return address{}, invalidArg("manager address %q: names no host", text)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return address{}, invalidArg("manager address: must not hold a path, query or fragment")
	}
	return address{base: u.Scheme + "://" + u.Host}, nil
}

// isPath reports whether text, which has no unix: before it, names a socket.
//
// MCLIENT-43: the name of a socket in the working directory looks like a host's,
// and what is taken for a host is looked for in the network.
func isPath(text string) bool {
	for _, start := range []string{"/", "./", "../", "@"} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	if strings.Contains(text, "://") {
		return false
	}
	first, rest, slash := strings.Cut(text, "/")
	if slash && rest != "" && !strings.Contains(first, ":") || strings.HasSuffix(text, ".sock") || strings.HasSuffix(text, ".socket") {
		return true
	}
	info, err := os.Stat(text)
	return err == nil && info.Mode().Type() == os.ModeSocket
}

// String is the address as people write it.
func (a address) String() string {
	if a.socket != "" {
		return "unix:" + a.socket
	}
	return a.base
}

// httpClient makes requests to the address and follows no redirect. Its idle
// connections are the caller's to close.
func (a address) httpClient() (*http.Client, *http.Transport) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
	}
	if a.socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", a.socket)
		}
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, transport
}
