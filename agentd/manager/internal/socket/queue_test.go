package socket

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"microvms/agentd/manager/internal/runs"
)

// of is an event of run 7 with the text that take shows.
func of(text string) item { return item{frame: []byte(text), event: &runs.Event{ID: 7}} }

func pass(item) bool { return true }
func none(item)      {}

// take returns the text of what the writer would write next.
func take(q *queue) string {
	kind, i := q.next(pass, none)
	switch kind {
	case nothing:
		return "nothing"
	case aPong:
		return "pong " + string(i.frame)
	case aClose:
		return "close"
	}
	return string(i.frame)
}

// TestQueueOrder adds messages in random order: pongs leave first, control
// messages next and pages last, each kind in its own order.
func TestQueueOrder(t *testing.T) {
	t.Attr("requirement", "SOCKET-13")
	t.Attr("requirement", "SOCKET-14")
	t.Attr("requirement", "SOCKET-20")
	rapid.Check(t, func(t *rapid.T) {
		q := newQueue()
		var pong []string
		var control, pages []string
		check := func() {
			want := slices.Concat(pong, control, pages)
			if got := take(q); got != want[0] {
				t.Fatalf("took %q, want %q of %q", got, want[0], want)
			}
			switch {
			case len(pong) > 0:
				pong = nil
			case len(control) > 0:
				control = control[1:]
			default:
				pages = pages[1:]
			}
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			text := fmt.Sprint(n)
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				q.answerPing([]byte(text))
				pong = []string{"pong " + text}
			case 1:
				q.add(item{frame: []byte(text)})
				control = append(control, text)
			case 2:
				q.add(of(text))
				control = append(control, text)
			case 3:
				q.addArtifact([]byte(text))
				pages = append(pages, text)
			default:
				if len(pong)+len(control)+len(pages) > 0 {
					check()
				}
			}
		}
		q.drain()
		for len(pong)+len(control)+len(pages) > 0 {
			check()
		}
		if got := take(q); got != "close" {
			t.Fatalf("took %q from a drained queue", got)
		}
	})
}

// TestQueueThrottles fills both queues: whoever asks for room waits until the
// writer has taken one, and events are added all the same.
func TestQueueThrottles(t *testing.T) {
	t.Attr("requirement", "SOCKET-16")
	t.Attr("requirement", "SOCKET-17")
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for range controlBound - 1 {
			q.add(item{frame: []byte("reply")})
		}
		if !q.waitControl() {
			t.Fatal("no room below the bound")
		}
		q.add(item{frame: []byte("reply")})
		for range artifactBound {
			if !q.waitArtifact() {
				t.Fatal("no room for a page below the bound")
			}
			q.addArtifact([]byte("page"))
		}
		var mu sync.Mutex
		var passed []string
		wait := func(name string, room func() bool) {
			ok := room()
			mu.Lock()
			defer mu.Unlock()
			passed = append(passed, fmt.Sprint(name, " ", ok))
		}
		go wait("control", q.waitControl)
		go wait("artifact", q.waitArtifact)
		synctest.Wait()
		for range 3 {
			q.add(of("event")) // never waits
		}
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(passed, want) {
				t.Fatalf("passed %q, want %q", passed, want)
			}
		}
		for range 3 {
			take(q)
		}
		expect()
		take(q)
		expect("control true")
		for range controlBound - 1 {
			take(q)
		}
		expect("control true")
		if got := take(q); got != "page" {
			t.Fatalf("took %q", got)
		}
		expect("control true", "artifact true")
	})
}

// TestQueueEnds ends a queue with waiters of each kind: all of them return, the
// queue is empty and stays so.
func TestQueueEnds(t *testing.T) {
	t.Attr("requirement", "SOCKET-21")
	for name, stop := range map[string]func(*queue){
		"ended": func(q *queue) { q.end(func() {}) }, "drained": (*queue).drain,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue()
				for range controlBound {
					q.add(item{})
				}
				for range artifactBound {
					q.addArtifact(nil)
				}
				go func() {
					if q.waitControl() {
						t.Error("a stopped queue has room for control messages")
					}
				}()
				go func() {
					if q.waitArtifact() {
						t.Error("a stopped queue has room for pages")
					}
				}()
				synctest.Wait()
				stop(q)
			})
		})
	}
	q := newQueue()
	q.add(item{})
	calls := 0
	for range 2 {
		q.end(func() { calls++ })
	}
	q.add(item{})
	q.addArtifact(nil)
	if control, artifact := q.lengths(); control != 0 || artifact != 0 || calls != 1 {
		t.Errorf("an ended queue holds %d and %d; its end was told %d times", control, artifact, calls)
	}
	if got := take(q); got != "nothing" {
		t.Errorf("took %q from an ended queue", got)
	}
}

// TestQueueGate holds an event at the gate: it stays queued and unrecorded until
// the gate opens, and is dropped when the connection ends meanwhile.
func TestQueueGate(t *testing.T) {
	t.Attr("requirement", "SOCKET-13")
	for _, ends := range []bool{false, true} {
		q := newQueue()
		q.add(of("event"))
		recorded := 0
		kind, i := q.next(func(at item) bool {
			if control, _ := q.lengths(); control != 1 || at.event.ID != 7 {
				t.Errorf("at the gate: %d queued, run %d", control, at.event.ID)
			}
			if ends {
				q.end(func() {})
			}
			return true
		}, func(item) { recorded++ })
		if ends != (kind == nothing) || ends != (recorded == 0) {
			t.Errorf("ends %v: kind %d, recorded %d", ends, kind, recorded)
		}
		if !ends && (i.event.ID != 7 || kind != aMessage) {
			t.Errorf("took %v of run %d", kind, i.event.ID)
		}
	}
	q := newQueue()
	q.add(of("event"))
	if kind, _ := q.next(func(item) bool { return false }, func(item) { t.Error("recorded") }); kind != nothing {
		t.Errorf("a refused gate gave %d", kind)
	}
}
