package httpapi

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"microvms/agentd/internal/limits"
	"microvms/agentd/trace"
	"microvms/agentd/trace/tracetest"
)

// room is an admission at its cap with connections in given phases.
func room(grace time.Duration, conns ...*conn) *admission {
	a := newAdmission(nil, limits.Limits{HeaderTimeout: time.Hour, WriteTimeout: time.Hour, EvictionGrace: grace}, "v", trace.System{}, func(string, ...any) {})
	for i, c := range conns {
		c.Conn, c.admission, c.serial = &fakeConn{}, a, uint64(i)
		a.conns[c] = struct{}{}
	}
	return a
}

// TestWhoMakesRoom checks which of two connections is asked: of those beyond
// the grace the one of the lower rank, then the one that waits longer, and
// never one whose handler works.
func TestWhoMakesRoom(t *testing.T) {
	t.Attr("requirement", "XPORT-5")
	t.Attr("requirement", "XPORT-30")
	now := time.Now()
	at := func(p phase, served bool, age time.Duration) *conn {
		return &conn{phase: p, served: served, since: now.Add(-age)}
	}
	const s = time.Second
	for _, c := range []struct {
		name string
		a, b *conn
		want int // 0: a, 1: b, -1: none
	}{
		{"the older", at(awaitingHeader, false, 3*s), at(awaitingHeader, false, 4*s), 1},
		{"a silent one before an idle one", at(awaitingHeader, true, 9*s), at(awaitingHeader, false, 2*s), 1},
		{"a hook's body before an idle one", at(awaitingHeader, true, 9*s), at(awaitingHook, true, 2*s), 1},
		{"an idle one before an owner's upload", at(awaitingBody, true, 9*s), at(awaitingHeader, true, 2*s), 1},
		{"an owner's upload before a request under way", at(serving, true, 9*s), at(awaitingBody, true, 2*s), 1},
		{"what is older than the grace before what is not", at(awaitingHeader, true, 2*s), at(awaitingHeader, false, s/2), 0},
		{"a drain", at(serving, true, 9*s), at(draining, true, 2*s), 1},
		{"none within the grace", at(awaitingHeader, false, s/2), at(awaitingHook, true, s/4), -1},
		{"none that is served", at(serving, true, 9*s), at(serving, true, 8*s), -1},
	} {
		a := room(s, c.a, c.b)
		a.makeRoomLocked(now)
		got := -1
		for i, x := range []*conn{c.a, c.b} {
			if a.asked == x {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s: %d is asked, want %d", c.name, got, c.want)
		}
	}
	a := room(s, at(awaitingHeader, false, s/4), at(awaitingHook, false, s/2), at(serving, true, 9*s))
	if due := a.makeRoomLocked(now); due != s/2 {
		t.Errorf("one may make room in %v, want 500ms", due)
	}
}

// leaping is a clock that moves just before its next timer is set.
type leaping struct {
	*tracetest.Clock
	leap time.Duration
}

func (l *leaping) AfterFunc(d time.Duration, f func()) trace.Timer {
	leap := l.leap
	l.leap = 0
	l.Advance(leap)
	return l.Clock.AfterFunc(d, f)
}

// TestAlarmIsNotLate lets the clock move between the look at what waits and the
// alarm for when it has waited for the grace: the alarm counts from the wait.
func TestAlarmIsNotLate(t *testing.T) {
	t.Attr("requirement", "XPORT-31")
	clock := &leaping{tracetest.NewClock(time.Unix(1e9, 0)), 20 * time.Minute}
	c := &conn{phase: awaitingHook, since: clock.Now()}
	a := room(time.Hour, c)
	a.clock = clock
	ripe, stop := a.lookLocked()
	defer stop()
	if left := clock.Pending(); !slices.Equal(left, []time.Duration{40 * time.Minute}) {
		t.Fatalf("alarms ring in %v, want one in 40m", left)
	}
	clock.Advance(40 * time.Minute)
	<-ripe
	if a.lookLocked(); a.asked != c {
		t.Error("the connection is not asked when its grace has passed")
	}
}

// pipe is a pair of connected sockets: the first is read by a conn.
func pipe(t *testing.T) (server, client net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if client, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return server, client
}

// TestWhatArrivedIsRead asks a connection to make room whose bytes are in the
// socket already: they are read. Asked again, with nothing there, it goes.
func TestWhatArrivedIsRead(t *testing.T) {
	t.Attr("requirement", "XPORT-30")
	server, client := pipe(t)
	c := &conn{}
	a := room(-1, c)
	c.Conn = server
	c.waitHeaderLocked()
	if _, err := client.Write([]byte("GET ")); err != nil {
		t.Fatal(err)
	}
	for unread(server) < 4 { // it is on its way over the loopback
	}
	ask := func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.makeRoomLocked(time.Now())
		if a.asked != c {
			t.Fatal("the connection is not asked")
		}
	}
	ask()
	buf := make([]byte, 10)
	if n, err := c.Read(buf); err != nil || string(buf[:n]) != "GET " {
		t.Fatalf("read %q (%v), want what had arrived", buf[:n], err)
	}
	if a.asked != nil || c.evicted {
		t.Fatal("the question outlives the bytes that answer it")
	}
	ask()
	if n, err := c.Read(buf); err != errEvicted || n != 0 {
		t.Fatalf("read %d bytes (%v), want the eviction", n, err)
	}
	if len(a.conns) != 0 || c.beginServing() {
		t.Error("a connection that made room holds its slot or is served")
	}
}

// TestQuestionIsTakenBack asks a connection, and then admits the newcomer
// elsewhere: the connection reads on as if nothing had been.
func TestQuestionIsTakenBack(t *testing.T) {
	t.Attr("requirement", "XPORT-30")
	server, client := pipe(t)
	c := &conn{}
	a := room(-1, c)
	c.Conn = server
	c.waitHeaderLocked()
	a.makeRoomLocked(time.Now())
	if again, err := c.readOn(0, nil); again || err != nil || a.asked != c {
		t.Fatalf("an end of input answers %v, %v", again, err)
	}
	a.spareLocked()
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := c.Read(buf); err != nil || n != 1 {
		t.Errorf("read %d bytes (%v), want 1", n, err)
	}
}

// TestWhoseHeaderIsReadIsNotClosed asks a connection after its header came in
// and before its handler begins, while net/http already reads on to see the end
// of input: that read is no sign that nothing has arrived.
func TestWhoseHeaderIsReadIsNotClosed(t *testing.T) {
	t.Attr("requirement", "XPORT-30")
	server, client := pipe(t)
	c := &conn{}
	a := room(-1, c)
	c.Conn = server
	c.waitHeaderLocked()
	if _, err := client.Write([]byte("GET ")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 10)
	if n, err := c.Read(buf); err != nil || n != 4 {
		t.Fatalf("read %d bytes (%v), want 4", n, err)
	}
	a.mu.Lock()
	a.makeRoomLocked(time.Now()) // a newcomer comes in between
	a.mu.Unlock()
	c.headerRead()
	if a.asked != nil {
		t.Error("the question outlives the header that answers it")
	}
	watched := make(chan error, 1)
	go func() {
		_, err := c.Read(buf[:1])
		watched <- err
	}()
	if !c.beginServing() {
		t.Error("a request whose header is read is not served")
	}
	client.Close()
	if err := <-watched; err != io.EOF {
		t.Errorf("the watch for the end of input ends with %v", err)
	}
}
