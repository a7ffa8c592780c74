package runs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// TestMain serves as the manager of TestExecutorsDieWithTheManager too.
func TestMain(m *testing.M) {
	if os.Getenv("RUNS_HELPER") != "" {
		os.Exit(managerOfOne())
	}
	goleak.VerifyTestMain(m)
}

// patience is how long a test waits for an event before it fails.
const patience = 10 * time.Second

func await(t testing.TB, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(patience):
		t.Fatalf("%s did not come", what)
	}
}

// world is a table with what a test steers it by.
type world struct {
	t     testing.TB
	table *Table
	clock *stepClock
	gate  *gate
	rec   *recorder
}

// newWorld makes a table whose clock stands still, with the given gates shut.
// The table is shut down, and checked to end, at the test's end.
func newWorld(t testing.TB, c Config, shut ...trace.Action) *world {
	t.Helper()
	w := bareWorld(t, c, shut...)
	t.Cleanup(w.end)
	return w
}

// bareWorld is newWorld for those who end it themselves.
func bareWorld(t testing.TB, c Config, shut ...trace.Action) *world {
	w := &world{t: t, clock: newStepClock(), gate: newGate(shut...), rec: newRecorder()}
	c.Clock, c.Gate, c.Recorder, c.Log = w.clock, w.gate, w.rec, slog.New(slog.DiscardHandler)
	w.table = New(c)
	return w
}

func (w *world) end() {
	w.gate.openAll()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	if err := w.table.Shutdown(ctx); err != nil {
		w.t.Errorf("Shutdown = %v", err)
	}
}

// order is what a test asks the table to run.
type order struct {
	token    string // "": none
	permits  int
	deadline time.Duration // 0: an hour
	child    *child        // nil: a new one
	refuse   error         // what Prepare returns
}

// run sends a run request of c and returns the id of its reply.
func (w *world) run(c *conn, o order) (ID, *child) {
	w.t.Helper()
	if o.child == nil {
		o.child = newChild(w.t)
	}
	if o.deadline == 0 {
		o.deadline = time.Hour
	}
	s := Spec{Deadline: o.deadline, Permits: o.permits, Prepare: func(context.Context, ID) (*Prepared, error) {
		if o.refuse != nil {
			return nil, o.refuse
		}
		return o.child.prepared(), nil
	}}
	if o.token != "" {
		s.Token = &o.token
	}
	var got ID
	var sub Subscriber
	if c != nil {
		sub = c
	}
	err := w.table.Run(context.Background(), s, sub, func(id ID) {
		got = id
		c.add(fmt.Sprintf("id %d", id))
	})
	if err != nil {
		w.t.Fatalf("Run = %v", err)
	}
	return got, o.child
}

func (w *world) attach(c *conn, id ID) error {
	return w.table.Attach(context.Background(), id, c, func(ev Event) { c.add("snapshot " + show(ev)) })
}

func (w *world) cancel(id ID) error { return w.table.Cancel(context.Background(), id) }

func (w *world) ack(id ID) error { return w.table.Ack(context.Background(), id) }

func (w *world) read(id ID, f Field) (string, error) {
	_, data, err := w.table.Artifact(context.Background(), id, f, 0, PageBytes)
	return string(data), err
}

// permits fails the test unless as many are free.
func (w *world) permits(free int) {
	w.t.Helper()
	if _, got := w.table.Permits(); got != free {
		w.t.Errorf("%d permits are free, want %d", got, free)
	}
}

// took waits until the run has taken a transition.
func (w *world) took(a trace.Action, id ID) {
	w.t.Helper()
	for {
		next := w.rec.signal()
		if slices.Contains(w.rec.of(id), a) {
			return
		}
		await(w.t, next, string(a))
	}
}

// wait waits for the run's terminal event.
func (w *world) wait(id ID) Event {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ev, err := w.table.Wait(ctx, id, func(ev Event) bool { return ev.Kind.Terminal() })
	if err != nil {
		w.t.Fatalf("Wait(%d) = %v", id, err)
	}
	return ev
}

// conn is a connection: it keeps, in order, what it was told.
type conn struct {
	mu      sync.Mutex
	got     []string
	changed chan struct{}
}

func newConn() *conn { return &conn{changed: make(chan struct{})} }

func (c *conn) Deliver(ev Event) { c.add(show(ev)) }

func (c *conn) add(s string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, s)
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *conn) heard() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.got)
}

// hears waits until the connection was told as much as want, and compares.
func (c *conn) hears(t testing.TB, want ...string) {
	t.Helper()
	for {
		c.mu.Lock()
		got, changed := slices.Clone(c.got), c.changed
		c.mu.Unlock()
		if len(got) >= len(want) {
			if !slices.Equal(got, want) {
				t.Fatalf("the connection heard\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
			}
			return
		}
		await(t, changed, fmt.Sprintf("message %d of %q after %q", len(got)+1, want, got))
	}
}

// show prints an event without its times and sizes.
func show(ev Event) string {
	s := fmt.Sprintf("%s %d", ev.Kind, ev.ID)
	switch f := ev.Finished; {
	case ev.Kind == EventFailedToStart:
		s += ": " + ev.Error
	case f == nil:
	case f.ExitCode == nil:
		s += fmt.Sprintf(" %s", f.Cause)
	default:
		s += fmt.Sprintf(" %s %d", f.Cause, *f.ExitCode)
	}
	return s
}

// child is a shell that obeys one line, which it reads from its descriptor 3.
type child struct {
	read, write *os.File      // its orders
	answer      *os.File      // its descriptor 4
	answers     *bufio.Reader // what it writes there
	input       []byte
	capture     execution.Capture
	path        string // "": the shell
	version     string
	finish      func(context.Context) Report
	close       func() // closes the test's ends
	abandon     func() // closes all ends
	more        []execution.Descriptor

	mu      sync.Mutex
	spawned []bool // the calls of Prepared.Spawned
	closed  int    // the calls of Prepared.Close
}

func newChild(t testing.TB) *child {
	t.Helper()
	c := &child{}
	c.read, c.write = pipe(t)
	answers, answer := pipe(t)
	c.answer, c.answers = answer, bufio.NewReader(answers)
	c.close = func() { c.write.Close(); answers.Close() } // the child's ends are closed by what Prepared says
	c.abandon = func() { c.close(); c.read.Close(); c.answer.Close() }
	t.Cleanup(c.close)
	return c
}

// pipe makes a pipe whose ends block, as a child expects it of its own.
func pipe(t testing.TB) (read, write *os.File) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(p[0]), "pipe"), os.NewFile(uintptr(p[1]), "pipe")
}

// number reads the number that the child writes to its descriptor 4.
func (c *child) number(t testing.TB) int {
	t.Helper()
	line, err := c.answers.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (c *child) prepared() *Prepared {
	path := c.path
	if path == "" {
		path = "/bin/sh"
	}
	capture := c.capture
	return &Prepared{
		Command: &execution.Command{
			Path: path, Args: []string{"sh", "-c", `read -r x <&3; eval "$x"`},
			Env:         []string{"PATH=/usr/local/bin:/bin:/usr/bin"},
			Descriptors: append([]execution.Descriptor{{File: c.read}, {File: c.answer}}, c.more...),
			Capture:     &capture,
		},
		Input: c.input, Version: c.version, Finish: c.finish,
		Spawned: func(spawned bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.spawned = append(c.spawned, spawned)
			c.read.Close()
			c.answer.Close()
		},
		Close: func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.closed++
			c.read.Close()
			c.answer.Close()
		},
	}
}

// held makes the child's creation wait until let is closed; came is closed when
// it has begun.
func (c *child) held() (came, let chan struct{}) {
	came, let = make(chan struct{}), make(chan struct{})
	c.more = []execution.Descriptor{{Open: func() (int, error) {
		close(came)
		<-let
		return unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}}}
	return came, let
}

// obey gives the child its line and closes the pipe.
func (c *child) obey(t testing.TB, line string) {
	t.Helper()
	if _, err := c.write.WriteString(line + "\n"); err != nil {
		t.Fatal(err)
	}
	c.write.Close()
}

// calls says how Prepared was used: the calls of Spawned, then of Close.
func (c *child) calls() string {
	spawned, closed := c.used()
	return fmt.Sprintf("%v %d", spawned, closed)
}

func (c *child) used() (spawned []bool, closed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spawned), c.closed
}

var errRefused = errors.New("no version matches")
