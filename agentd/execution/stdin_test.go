package execution

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"microvms/agentd/trace"
)

func pipe(t testing.TB) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}

// Data, then an end of file, in one call or two, reach the child in order;
// afterwards stdin is closed, also for a second end of file.
func TestStdin(t *testing.T) {
	for _, req := range []string{"STDIN-3", "STDIN-5", "STDIN-6", "STDIN-10"} {
		t.Attr("requirement", req)
	}
	ctx := context.Background()
	for _, together := range []bool{false, true} {
		e := start(t, newRegistry(t, Config{}), "x", withStdin("cat"))
		if n, err := e.WriteStdin(ctx, nil, false); n != 0 || err != nil {
			t.Errorf("an empty write = %d, %v", n, err)
		}
		if n, err := e.WriteStdin(ctx, []byte("one "), false); n != 4 || err != nil {
			t.Errorf("write = %d, %v", n, err)
		}
		if n, err := e.WriteStdin(ctx, []byte("two"), together); n != 3 || err != nil {
			t.Errorf("write = %d, %v", n, err)
		}
		if !together {
			if n, err := e.WriteStdin(ctx, nil, true); n != 0 || err != nil {
				t.Errorf("end of file = %d, %v", n, err)
			}
		}
		for _, eof := range []bool{true, false} {
			if n, err := e.WriteStdin(ctx, []byte("x"), eof); n != 0 || err != ErrStdinClosed {
				t.Errorf("a write after the end = %d, %v; want ErrStdinClosed", n, err)
			}
			if n, err := e.WriteStdin(ctx, nil, eof); n != 0 || err != ErrStdinClosed {
				t.Errorf("nothing after the end, eof %v = %d, %v; want ErrStdinClosed", eof, n, err)
			}
		}
		if r := finished(t, e); string(r.Stdout) != "one two" {
			t.Errorf("the child read %q", r.Stdout)
		}
	}
}

// What stdin refuses, and that it writes nothing then.
func TestStdinRefuses(t *testing.T) {
	for _, req := range []string{"STDIN-1", "STDIN-2", "STDIN-8", "STDIN-6"} {
		t.Attr("requirement", req)
	}
	ctx := context.Background()
	r := newRegistry(t, Config{MaxStdinWrite: 4})
	without := start(t, r, "without", sh("cat"))
	if _, err := without.WriteStdin(ctx, []byte("too large"), false); err != ErrStdinNotRequested {
		t.Errorf("without stdin = %v", err)
	}
	if res := finished(t, without); status(res) != "exit 0" {
		t.Errorf("a command without stdin ends by %s: its stdin is not empty", status(res))
	}
	e := start(t, r, "with", withStdin("cat"))
	if n, err := e.WriteStdin(ctx, []byte("12345"), true); n != 0 || err != ErrStdinTooLarge {
		t.Errorf("5 bytes of at most 4 = %d, %v", n, err)
	}
	if n, err := e.WriteStdin(ctx, []byte("1234"), true); n != 4 || err != nil {
		t.Errorf("4 bytes of at most 4 = %d, %v", n, err)
	}
	if res := finished(t, e); string(res.Stdout) != "1234" {
		t.Errorf("the child read %q", res.Stdout)
	}
	if _, err := e.WriteStdin(ctx, []byte("12345"), true); err != ErrStdinTooLarge {
		t.Errorf("too large after the exit = %v: the size is judged first", err)
	}
	if _, err := e.WriteStdin(ctx, nil, false); err != ErrStdinClosed {
		t.Errorf("after the exit = %v", err)
	}
}

// A child that does not read is told from one that is slow: after the limit
// the write ends with what the pipe took, stdin stays open, and what is written
// once the child reads follows without a hole.
func TestStdinStall(t *testing.T) {
	t.Attr("requirement", "STDIN-7")
	t.Attr("requirement", "STDIN-4")
	clock := newStepClock()
	e := start(t, newRegistry(t, Config{Clock: clock}), "x", withStdin("echo up; kill -STOP $$; cat"))
	ready(t, e, "up\n")
	data := bytes.Repeat([]byte("0123456789abcdef"), 20000)
	type outcome struct {
		n   int
		err error
	}
	got := make(chan outcome, 1)
	offer := func(p []byte, eof bool) {
		n, err := e.WriteStdin(context.Background(), p, eof)
		got <- outcome{n, err}
	}
	go offer(data, true)
	clock.pending(t, DefaultStdinTimeout)
	clock.Advance(DefaultStdinTimeout)
	stalled := <-got
	if stalled.err != ErrStdinTimeout || stalled.n == 0 || stalled.n >= len(data) {
		t.Fatalf("stalled write = %d of %d, %v; want a part and ErrStdinTimeout", stalled.n, len(data), stalled.err)
	}
	resume(t, e)
	go offer(data[stalled.n:], true)
	if rest := <-got; rest.err != nil || stalled.n+rest.n != len(data) {
		t.Fatalf("the rest = %d, %v", rest.n, rest.err)
	}
	if r := finished(t, e); string(r.Stdout) != "up\n"+string(data) {
		t.Errorf("the child read %d bytes, not the %d that were written", len(r.Stdout)-3, len(data))
	}
}

// A context that ends stops a write that stalls; the pipe stays open.
func TestStdinContext(t *testing.T) {
	e := start(t, newRegistry(t, Config{StdinTimeout: -1}), "x", withStdin("echo up; kill -STOP $$; cat >/dev/null"))
	ready(t, e, "up\n")
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 2)
	big := make([]byte, 200000)
	go func() {
		n, err := e.WriteStdin(ctx, big, false)
		if n == 0 || n == len(big) {
			err = fmt.Errorf("%d bytes written: %w", n, err)
		}
		got <- err
	}()
	ready2 := make(chan struct{})
	go func() { // a second one waits for its turn
		close(ready2)
		_, err := e.WriteStdin(ctx, big, false)
		got <- err
	}()
	<-ready2
	full(t, e)
	cancel()
	for range 2 {
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("a write called off = %v", err)
		}
	}
	resume(t, e)
	if _, err := e.WriteStdin(context.Background(), nil, true); err != nil {
		t.Errorf("the end of file after it = %v", err)
	}
	finished(t, e)
}

// Stdin is closed by a child that closes its end, with the bytes that it took,
// and by the exit in the middle of a write. No call hangs.
func TestStdinBroken(t *testing.T) {
	t.Attr("requirement", "STDIN-6")
	t.Attr("requirement", "STDIN-4")
	e := start(t, newRegistry(t, Config{}), "broken", withStdin("exec 0<&-; echo up; exec sleep 1000"))
	ready(t, e, "up\n")
	for range 2 {
		if n, err := e.WriteStdin(context.Background(), []byte("x"), false); n != 0 || err != ErrStdinClosed {
			t.Errorf("a write that nobody reads = %d, %v", n, err)
		}
	}
	e = start(t, newRegistry(t, Config{}), "exit", withStdin("echo up; head -c 70000 >/dev/null; exit 3"))
	ready(t, e, "up\n")
	if _, err := e.WriteStdin(context.Background(), make([]byte, 1<<20), false); err != ErrStdinClosed {
		t.Errorf("a write across the exit = %v", err)
	}
	if r := finished(t, e); status(r) != "exit 3" {
		t.Error(status(r))
	}
	clock := newStepClock()
	e = start(t, newRegistry(t, Config{Clock: clock, StdinTimeout: -1}), "linger", withStdin("exec 3<&0; (echo up; exec sleep 1000) <&3 & exit 0"))
	ready(t, e, "up\n")
	got := make(chan error, 1)
	go func() {
		_, err := e.WriteStdin(context.Background(), make([]byte, 1<<20), false)
		got <- err
	}()
	clock.pending(t, DefaultLinger)
	full(t, e)
	clock.Advance(DefaultLinger)
	if err := <-got; err != ErrStdinClosed {
		t.Errorf("a write that stalls at the terminal marker = %v", err)
	}
}

// Two writers do not mix: every write's bytes lie together, and one writer's
// come in its order.
func TestStdinWritersAreOrdered(t *testing.T) {
	t.Attr("requirement", "STDIN-3")
	e := start(t, newRegistry(t, Config{}), "x", withStdin("cat"))
	const writes = 40
	var wg sync.WaitGroup
	for _, writer := range []string{"a", "b", "c"} {
		wg.Go(func() {
			for i := range writes {
				line := fmt.Sprintf("%s%03d", writer, i) + strings.Repeat(writer, 6000) + "\n"
				if n, err := e.WriteStdin(context.Background(), []byte(line), false); n != len(line) || err != nil {
					t.Errorf("write = %d, %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	res := finish(t, e)
	next := map[string]int{}
	for line := range strings.Lines(string(res.Stdout)) {
		w := line[:1]
		if line != fmt.Sprintf("%s%03d", w, next[w])+strings.Repeat(w, 6000)+"\n" {
			t.Fatalf("line %q… is out of order or mixed", line[:4])
		}
		next[w]++
	}
	if next["a"] != writes || next["b"] != writes || next["c"] != writes {
		t.Errorf("lines by writer = %v", next)
	}
}

// An end of file that comes while a write is under way waits for its turn: the
// child gets every byte before it.
func TestStdinEndWaitsForItsTurn(t *testing.T) {
	t.Attr("requirement", "STDIN-3")
	e := start(t, newRegistry(t, Config{StdinTimeout: -1}), "x", withStdin("kill -STOP $$; cat"))
	data := bytes.Repeat([]byte("0123456789"), 50000)
	got := make(chan error, 2)
	go func() {
		_, err := e.WriteStdin(context.Background(), data, false)
		got <- err
	}()
	full(t, e)
	waits := make(chan struct{})
	go func() {
		ctx := &watchedContext{Context: context.Background(), asked: func() { close(waits) }}
		_, err := e.WriteStdin(ctx, nil, true)
		got <- err
	}()
	await(t, waits, "the end of file's wait for its turn")
	resume(t, e)
	for range 2 {
		if err := <-got; err != nil {
			t.Error(err)
		}
	}
	if res := finished(t, e); !bytes.Equal(res.Stdout, data) {
		t.Errorf("the child read %d bytes of %d", len(res.Stdout), len(data))
	}
}

// The points of stdin are passed and recorded in their order.
func TestStdinPoints(t *testing.T) {
	rec := &recorder{}
	gate := newGate(trace.StdinEOF)
	e := start(t, newRegistry(t, Config{Recorder: rec, Gate: gate}), "x", withStdin("cat"))
	got := make(chan error, 1)
	go func() {
		_, err := e.WriteStdin(context.Background(), []byte("x"), true)
		got <- err
	}()
	gate.arrived(t, trace.StdinEOF)
	if a := rec.actions(trace.StdinWrite, trace.StdinEOF); len(a) != 1 || a[0] != trace.StdinWrite {
		t.Errorf("recorded before the gate opened: %v", a)
	}
	gate.open(trace.StdinEOF)
	if err := <-got; err != nil {
		t.Error(err)
	}
	finished(t, e)
	if rec.count(trace.StdinEOF) != 1 {
		t.Error("the end of file was not recorded once")
	}
}
