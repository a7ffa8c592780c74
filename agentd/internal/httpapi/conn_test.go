package httpapi

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
)

// fakeConn notes deadlines.
type fakeConn struct {
	net.Conn
	read []time.Time
}

func (f *fakeConn) SetReadDeadline(t time.Time) error { f.read = append(f.read, t); return nil }
func (f *fakeConn) last() time.Time                   { return f.read[len(f.read)-1] }

// TestOneDeadlineOverTheWait checks that what net/http asks for never extends
// the wait for a header: idle time and header time share one deadline.
func TestOneDeadlineOverTheWait(t *testing.T) {
	t.Attr("requirement", "XPORT-6")
	fake := &fakeConn{}
	a := newAdmission(nil, limits.Limits{HeaderTimeout: time.Hour}, "v", trace.System{}, func(string, ...any) {})
	c := &conn{Conn: fake, admission: a}
	a.conns[c] = struct{}{}
	start := time.Now()
	c.waitHeaderLocked()
	due := fake.last()
	for _, asked := range []time.Time{{}, start.Add(2 * time.Hour)} {
		c.SetReadDeadline(asked)
		if !fake.last().Equal(due) {
			t.Errorf("net/http asked for %v and got %v, want %v", asked, fake.last(), due)
		}
	}
	c.SetReadDeadline(start.Add(time.Minute))
	if !fake.last().Equal(start.Add(time.Minute)) {
		t.Error("an earlier deadline was not set")
	}
	if !c.beginServing() || !fake.last().IsZero() {
		t.Error("a request under way has a header deadline")
	}
	c.SetReadDeadline(time.Time{})
	if !fake.last().IsZero() {
		t.Error("a request under way cannot clear its deadline")
	}
	c.beginWaiting()
	if fake.last().Before(start.Add(time.Hour)) || fake.last().IsZero() {
		t.Error("the wait between requests has no deadline of its own")
	}
	c.evicted = true
	if c.beginServing() {
		t.Error("a request is served on a connection that was closed for a newcomer")
	}
}

// TestWithVersion checks that only answers get the header, once, behind the
// status line.
func TestWithVersion(t *testing.T) {
	t.Attr("requirement", "XPORT-1")
	for in, want := range map[string]string{
		"HTTP/1.1 400 Bad Request\r\nA: b\r\n\r\nx": "HTTP/1.1 400 Bad Request\r\nmicrovms-agentd-version: v\r\nA: b\r\n\r\nx",
		"HTTP/1.1 400": "HTTP/1.1 400",
		"body\r\n":     "body\r\n",
		"":             "",
	} {
		if got := string(withVersion([]byte(in), "v")); got != want {
			t.Errorf("withVersion(%q) = %q, want %q", in, got, want)
		}
	}
}

// TestTokenByte checks which first bytes can begin a request.
func TestTokenByte(t *testing.T) {
	t.Attr("requirement", "XPORT-11")
	for b := range 256 {
		want := b < 0x80 && strings.ContainsRune("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ", rune(b))
		if got := tokenByte(byte(b)); got != want {
			t.Errorf("tokenByte(%#x) = %v", b, got)
		}
	}
}

// TestIsJSON checks which content types carry JSON.
func TestIsJSON(t *testing.T) {
	t.Attr("requirement", "XPORT-13")
	t.Attr("requirement", "XPORT-22")
	for value, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=utf-8": true, "application/problem+json": true, "application/json; a": true,
		"": false, "json": false, "text/json": false, "application/jsonp": false, "application/json/x": false, "multipart/form-data": false, ";": false,
	} {
		if got := isJSON(http.Header{"Content-Type": {value}}); got != want {
			t.Errorf("isJSON(%q) = %v, want %v", value, got, want)
		}
	}
}
