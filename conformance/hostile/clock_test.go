package hostile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"microvms/agentd"
	"microvms/agentd/api"
	"microvms/agentd/trace"
	"microvms/conformance/replay"
)

// jumpy is a clock whose wall time can be set, as a host does after a
// suspension, while its timers follow the time that has passed.
type jumpy struct {
	*replay.Clock
	skew atomic.Int64
}

func (c *jumpy) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.skew.Load())) }

func newJumpy() *jumpy { return &jumpy{Clock: replay.NewClock(time.Unix(1_700_000_000, 0))} }

// inProcess runs the daemon in the test process by the clock; nil is the
// system's.
func inProcess(t *testing.T, l agentd.Limits, clock trace.Clock) *probe {
	t.Helper()
	before := goleak.IgnoreCurrent()
	d, err := agentd.New(agentd.Config{Version: "hostile", Clock: clock, Limits: l, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- d.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		if err := errors.Join(d.Shutdown(context.Background()), <-served); err != nil {
			t.Error(err)
		}
		goleak.VerifyNone(t, before)
	})
	url := "http://" + listener.Addr().String()
	install(t, url)
	return newProbe(Target{URL: url, Token: token, Knobs: Knobs{}.withDefaults()}, t.Name())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// remaining waits until a timer is pending that is due after d.
func remaining(t *testing.T, clock *jumpy, d time.Duration) {
	t.Helper()
	if err := clock.Await(t.Context(), func(pending []time.Duration) bool { return slices.Contains(pending, d) }); err != nil {
		t.Fatalf("no timer of %v: %v: %v", d, clock.Pending(), err)
	}
}

// expire moves the clock, a scan at a time, until the exec has ended.
func expire(t *testing.T, p *probe, clock *jumpy, id string) *api.PollResponse {
	t.Helper()
	type ending struct {
		poll *api.PollResponse
		err  error
	}
	done := make(chan ending, 1)
	go func() {
		poll, err := p.ended(t.Context(), id)
		done <- ending{poll, err}
	}()
	var end ending
	must(t, await(t.Context(), "the exec has ended", func() (bool, error) {
		select {
		case end = <-done:
			return true, end.err
		default:
			clock.Advance(50 * time.Millisecond)
			return false, nil
		}
	}))
	return end.poll
}

// TestClockJumpsEndNothing is E12: the wall clock jumps an hour either way, and
// the daemon is suspended for a minute. Only the time of its own budget ends a
// command.
func TestClockJumpsEndNothing(t *testing.T) {
	t.Attr("requirement", "EXEC-31")
	t.Attr("requirement", "EXEC-32")
	clock := newJumpy()
	p := inProcess(t, agentd.Limits{}, clock)
	ctx := t.Context()
	id := p.id()
	must(t, p.start(ctx, id, argv("/bin/sleep", "300").with("timeout_sec", 120)))
	remaining(t, clock, 120*time.Second)
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		clock.skew.Store(int64(jump))
		poll, err := p.poll(ctx, id)
		must(t, err)
		if poll.Phase != api.PhaseRunning {
			t.Fatalf("the wall clock moved %v and the exec is in phase %q", jump, poll.Phase)
		}
		remaining(t, clock, 120*time.Second)
	}
	clock.Advance(60 * time.Second) // all at once, as after a suspension
	remaining(t, clock, 60*time.Second)
	clock.Advance(59 * time.Second)
	remaining(t, clock, time.Second)
	g, err := p.group(ctx, id)
	must(t, err)
	if g.ChildExited || len(g.Pids) != 1 {
		t.Fatalf("a second before its time the exec has %+v", g)
	}
	clock.Advance(time.Second)
	end := expire(t, p, clock, id)
	if !end.TimedOut || end.Signal == nil || *end.Signal != 15 {
		t.Errorf("after its time it ended with %+v", end.Outcome)
	}
}

// TestSuspensionBeyondTheBudget is E12: a budget that has passed during a
// suspension ends the command at the resumption, with its raw status.
func TestSuspensionBeyondTheBudget(t *testing.T) {
	t.Attr("requirement", "EXEC-31")
	t.Attr("requirement", "EXEC-32")
	clock := newJumpy()
	p := inProcess(t, agentd.Limits{}, clock)
	id := p.id()
	must(t, p.start(t.Context(), id, script("trap 'exit 0' TERM; echo ready; while :; do sleep 1 & wait $!; done").with("timeout_sec", 60)))
	_, err := p.output(t.Context(), id)
	must(t, err)
	clock.Advance(time.Hour)
	end := expire(t, p, clock, id)
	if !end.TimedOut || end.ExitCode == nil || *end.ExitCode != 0 {
		t.Errorf("it ended with %+v", end.Outcome)
	}
}

// TestTenSilentMinutes is H12 by the clock: a reader that reads nothing for ten
// minutes, while another gets a comment in each interval of silence and the
// child is not disturbed. The dead one then finds everything, comments included.
func TestTenSilentMinutes(t *testing.T) {
	t.Attr("requirement", "OUT-16")
	t.Attr("requirement", "OUT-17")
	const keepalive = 15 * time.Second
	clock := newJumpy()
	p := inProcess(t, agentd.Limits{SSEKeepalive: keepalive}, clock)
	ctx := t.Context()
	id := p.id()
	must(t, p.start(ctx, id, argv("/bin/cat").with("stdin", true)))
	dead, err := p.attach(ctx, id, 0)
	must(t, err)
	defer dead.Close()
	alive, err := p.attach(ctx, id, 0)
	must(t, err)
	defer alive.Close()
	for range 10 * time.Minute / keepalive {
		must(t, clock.Await(ctx, func(pending []time.Duration) bool {
			return len(pending) >= 2 && pending[1] == keepalive // both wait
		}))
		clock.Advance(keepalive)
		line := ""
		for line != ":\r\n" && line != ":\n" {
			if line, err = alive.br.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, p.expect(ctx, "POST", execPath(id, "/stdin"), data("after all", true), is(200)))
	for _, s := range []*peer{dead, alive} {
		got, err := readRest(s)
		must(t, err)
		if string(got.out) != "after all" {
			t.Errorf("a reader got %q", got.out)
		}
	}
}

// readRest reads the events of a stream of which some lines were read, so that
// its chunks cannot be told apart any more: their lengths stand on lines of
// their own, which no event looks like.
func readRest(s *peer) (*transcript, error) { return readStream(s.br, 0) }

// TestUnreadAnswersAreCut is H2 and H12 by a short deadline: answers that
// nobody reads hold every slot, until the deadline of a write cuts them and the
// next one is served.
func TestUnreadAnswersAreCut(t *testing.T) {
	t.Attr("requirement", "OUT-17")
	t.Attr("requirement", "EXEC-35")
	const slots = 4
	p := inProcess(t, agentd.Limits{MaxConnections: slots, WriteTimeout: 100 * time.Millisecond}, nil)
	ctx := t.Context()
	id := p.id()
	must(t, p.start(ctx, id, zeros(64<<20)))
	_, err := p.follow(ctx, id, 64<<20)
	must(t, err)
	quiet := p.id()
	must(t, p.start(ctx, quiet, argv("/bin/cat").with("stdin", true)))
	flood := p.id()
	must(t, p.start(ctx, flood, argv("/usr/bin/yes", strings.Repeat("y", 1000))))
	for i := range slots {
		c, err := p.dial(ctx)
		must(t, err)
		defer c.Close()
		must(t, c.Conn.(*net.TCPConn).SetReadBuffer(4096))
		path := execPath(id, "") // a long answer
		if i%2 == 1 {
			path = execPath(flood, "/stream") // an endless one
		}
		fmt.Fprintf(c, "%s%s\r\n", head("GET", path), bearer(p))
		if _, err := c.br.ReadByte(); err != nil {
			t.Fatal(err)
		}
	}
	// As many at once as there are slots: they are served when all the dead are
	// cut, whose connections stay open on this side.
	must(t, p.attachMany(ctx, quiet, slots))
	g, err := p.group(ctx, flood)
	must(t, err)
	if g.ChildExited || len(g.Pids) != 1 {
		t.Errorf("the child of the dead readers: %+v", g)
	}
	for _, e := range []string{flood, quiet} {
		_, err = p.kill(ctx, e)
		must(t, err)
	}
}
