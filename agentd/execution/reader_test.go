package execution

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"microvms/agentd/trace"
)

// holding starts a command that stays alive until its stdin ends, in a record
// whose store the test fills by itself.
func holding(t testing.TB, c Config) *Exec {
	t.Helper()
	return start(t, newRegistry(t, c), "x", withStdin("cat >/dev/null"))
}

func finish(t testing.TB, e *Exec) Result {
	t.Helper()
	if _, err := e.WriteStdin(context.Background(), nil, true); err != nil {
		t.Fatal(err)
	}
	return finished(t, e)
}

func next(t testing.TB, r *Reader) StreamEvent {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	ev, err := r.Next(ctx)
	if err != nil {
		t.Fatalf("Next: %v", err)
	}
	return ev
}

// show prints an event in one word.
func show(ev StreamEvent) string {
	switch ev.Kind {
	case Output:
		return fmt.Sprintf("%s@%d:%s", ev.Stream, ev.Offset, ev.Data)
	case Gap:
		return fmt.Sprintf("gap[%d,%d)", ev.Offset, ev.To)
	}
	return fmt.Sprintf("exit@%d", ev.Offset)
}

// What a reader gets for each offset: a chunk trimmed to start at the offset, a
// gap when the ring has moved on, nothing below an offset in the future; then
// the exit with the total. The ring holds 8 bytes.
func TestReaderOffsets(t *testing.T) {
	for _, req := range []string{"OUT-5", "OUT-6", "OUT-7", "OUT-8", "OUT-20"} {
		t.Attr("requirement", req)
	}
	for _, c := range []struct {
		offset uint64
		want   string
	}{
		{0, "gap[0,4) stdout@4:efgh stderr@8:IJ stdout@10:kl exit@12"},
		{3, "gap[3,4) stdout@4:efgh stderr@8:IJ stdout@10:kl exit@12"},
		{4, "stdout@4:efgh stderr@8:IJ stdout@10:kl exit@12"},
		{6, "stdout@6:gh stderr@8:IJ stdout@10:kl exit@12"},
		{9, "stderr@9:J stdout@10:kl exit@12"},
		{11, "stdout@11:l exit@12"},
		{12, "exit@12"},
		{13, "exit@12"},
		{1 << 63, "exit@12"},
		{^uint64(0), "exit@12"},
	} {
		t.Run(fmt.Sprint(c.offset), func(t *testing.T) {
			e := holding(t, Config{Capture: Capture{RingBytes: 8}})
			e.publish(Stdout, []byte("abcdefgh"))
			e.publish(Stderr, []byte("IJ"))
			e.publish(Stdout, []byte("kl"))
			r := e.Subscribe(c.offset)
			defer r.Close()
			finish(t, e)
			var got []string
			for {
				ev, err := r.Next(context.Background())
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, show(ev))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("events = %v, want %s", got, c.want)
			}
		})
	}
}

// An offset in the future waits: no event until output has passed it, then
// the rest of the chunk that did.
func TestReaderWaitsForFutureOffset(t *testing.T) {
	t.Attr("requirement", "OUT-20")
	e := holding(t, Config{})
	r := e.Subscribe(5)
	defer r.Close()
	e.publish(Stdout, []byte("abcd"))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if ev, err := r.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Next below the offset = %s, %v; want to wait", show(ev), err)
	}
	e.publish(Stdout, []byte("efgh"))
	if got := show(next(t, r)); got != "stdout@5:fgh" {
		t.Errorf("event = %s", got)
	}
}

// A reader that takes nothing loses its own bytes, and is told which; another
// one and the writer never wait for it.
func TestSlowReaderGapsAlone(t *testing.T) {
	t.Attr("requirement", "OUT-17")
	t.Attr("requirement", "OUT-13")
	e := holding(t, Config{Capture: Capture{RingBytes: 64}})
	slow, quick := e.Subscribe(0), e.Subscribe(0)
	defer slow.Close()
	defer quick.Close()
	e.publish(Stdout, []byte("first"))
	if got := show(next(t, slow)); got != "stdout@0:first" {
		t.Fatal(got)
	}
	next(t, quick)
	for i := range 100 {
		e.publish(Stdout, []byte("0123456789"))
		if got := show(next(t, quick)); got != fmt.Sprintf("stdout@%d:0123456789", 5+10*i) {
			t.Fatalf("the quick reader got %s", got)
		}
	}
	if got := show(next(t, slow)); got != "gap[5,941)" {
		t.Errorf("the slow reader got %s first", got)
	}
	if ev := next(t, slow); ev.Offset != 941 || ev.To != 1005 {
		t.Errorf("and then %s", show(ev))
	}
}

// Data stays as it is until the next call, and no event but the first output
// and the exit allocates.
func TestReaderDoesNotAllocate(t *testing.T) {
	e := holding(t, Config{})
	r := e.Subscribe(0)
	defer r.Close()
	p := make([]byte, DefaultReadUnit)
	e.publish(Stdout, p)
	next(t, r)
	ctx := context.Background()
	for range 200 { // fill the ring, the head and the labels
		e.publish(Stdout, p)
		next(t, r)
	}
	e.store.cap.HeadBytes = 0
	n := testing.AllocsPerRun(200, func() {
		e.publish(Stdout, p)
		if ev, err := r.Next(ctx); err != nil || len(ev.Data) != len(p) {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations an event, want 0", n)
	}
}

// A reader that is closed, and one of a closed registry, return instead of
// waiting; a context ends the wait and not the reader.
func TestReaderEndsOfWait(t *testing.T) {
	r := New(Config{})
	e := start(t, r, "x", withStdin("cat"))
	waiting := func(reader *Reader) chan error {
		got := make(chan error, 1)
		go func() {
			_, err := reader.Next(context.Background())
			got <- err
		}()
		return got
	}
	first := e.Subscribe(0)
	got := waiting(first)
	first.Close()
	first.Close() // twice does nothing
	if err := <-got; err != ErrReaderClosed {
		t.Errorf("Next of a closed reader = %v", err)
	}
	second := e.Subscribe(0)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := second.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Next with an ended context = %v", err)
	}
	e.publish(Stdout, []byte("a"))
	if got := show(next(t, second)); got != "stdout@0:a" {
		t.Errorf("the reader after its context's end: %s", got)
	}
	got = waiting(second)
	if err := r.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != ErrClosed {
		t.Errorf("Next of a closed registry = %v", err)
	}
}

// Snapshot and subscription are one step: with a writer at full speed, each of
// many readers that attach at random moments gets every byte from its offset
// on, once.
func TestSubscribeIsAtomic(t *testing.T) {
	t.Attr("requirement", "OUT-9")
	t.Attr("requirement", "OUT-6")
	t.Attr("requirement", "OUT-12")
	e := holding(t, Config{})
	const chunks = 4000
	attached := make(chan *Reader, 50)
	go func() {
		defer close(attached)
		for range cap(attached) {
			attached <- e.Subscribe(0)
		}
	}()
	for i := range chunks {
		e.publish(Stream(i%2), fmt.Appendf(nil, "%07d\n", i))
	}
	res := finish(t, e)
	for r := range attached {
		got := readAll(t, r)
		if got.gaps != 0 || got.text[Stdout] != string(res.Stdout) || got.text[Stderr] != string(res.Stderr) {
			t.Fatalf("a reader lost %d bytes, or got others", got.gaps)
		}
	}
}

// The exit event comes after the last byte however late that is: here every
// pipe ends while the command's end is held back.
func TestLastByteBeforeExit(t *testing.T) {
	t.Attr("requirement", "OUT-18")
	t.Attr("requirement", "EXEC-18")
	rec := &recorder{}
	r := newRegistry(t, Config{Recorder: rec})
	for i := range 20 {
		e := start(t, r, fmt.Sprint(i), sh("(echo late; exec 1>&- 2>&-) & exec 1>&- 2>&-; wait"))
		if got := readAll(t, e.Subscribe(0)); got.text[Stdout] != "late\n" || got.exit.Total != 5 {
			t.Fatalf("stream = %q, exit %+v", got.text[Stdout], got.exit)
		}
	}
	last := map[string]trace.Action{}
	for _, ev := range rec.events {
		if last[ev.Exec] == trace.ExecExit && ev.Action == trace.OutputPublish {
			t.Fatalf("exec %s published after its exit", ev.Exec)
		}
		if ev.Action == trace.ExecExit || ev.Action == trace.OutputPublish {
			last[ev.Exec] = ev.Action
		}
	}
}

// The last bytes may still be on their way from the pipe to the store when the
// leader has long ended: the exit waits for them.
func TestExitWaitsForTheLastByte(t *testing.T) {
	t.Attr("requirement", "OUT-18")
	rec, g := &recorder{}, newGate(trace.OutputPublish, trace.LingerExpire)
	e := start(t, newRegistry(t, Config{Recorder: rec, Gate: g, Clock: newStepClock()}), "x", sh("echo late"))
	g.arrived(t, trace.OutputPublish)
	for rec.count(trace.LeaderReap) == 0 {
		_ = e.Poll()
	}
	if s := e.Poll(); s.Phase != PhaseRunning {
		t.Errorf("phase = %v with a byte on its way", s.Phase)
	}
	g.open(trace.OutputPublish)
	if res := finished(t, e); string(res.Stdout) != "late\n" {
		t.Errorf("stdout = %q", res.Stdout)
	}
}

// A grandchild that writes on after the linger is drained, without a byte of
// it in the stream, until it ends; then nothing is left of its pipes.
func TestDrainsAfterTheLinger(t *testing.T) {
	t.Attr("requirement", "EXEC-19")
	t.Attr("requirement", "EXEC-20")
	t.Attr("requirement", "OUT-19")
	clock := newStepClock()
	r := newRegistry(t, Config{Clock: clock})
	script := `exec 3<&0; (echo up; read x <&3; head -c 1000000 /dev/zero; echo done >&4) & exit 0`
	read, write := pipe(t)
	cmd := withStdin(script)
	cmd.Descriptors = []Descriptor{{File: read}, {File: write}} // 3 is replaced by the script, 4 tells the end
	e := start(t, r, "x", cmd)
	write.Close()
	ready(t, e, "up\n")
	clock.pending(t, DefaultLinger)
	if s := e.Poll(); s.Phase != PhaseRunning {
		t.Errorf("phase in the linger = %v", s.Phase)
	}
	if _, busy := r.Counts(); !busy {
		t.Error("not busy in the linger")
	}
	clock.Advance(DefaultLinger)
	res := finished(t, e)
	if !res.WritersMayBeAlive || res.Total != 3 {
		t.Errorf("result = %+v", res)
	}
	// Its stdin ended with the exec, so the grandchild now writes far more
	// than a pipe holds. It gets to the end only if somebody reads.
	done := make([]byte, 16)
	if n, err := read.Read(done); err != nil || string(done[:n]) != "done\n" {
		t.Errorf("the grandchild said %q, %v", done[:n], err)
	}
	await(t, e.drained, "the end of the pipes")
	if got := readAll(t, e.Subscribe(0)); got.exit.Total != 3 || got.text[Stdout] != "up\n" {
		t.Errorf("stream = %q, total %d", got.text[Stdout], got.exit.Total)
	}
}
