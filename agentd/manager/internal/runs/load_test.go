package runs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// A thousand runs by sixteen clients that share tokens, cancel, attach, ack,
// read and drop their connections at random, with deadlines and a retention that
// pass meanwhile: every connection hears of each of its runs once how it ended,
// permits stay within bounds, stops and spawns keep their order, and nothing is
// left over.
func TestLoad(t *testing.T) {
	for _, id := range []string{"MGR-6", "MGR-9", "MGR-10", "MGR-12", "MGR-13"} {
		t.Attr("requirement", id)
	}
	const clients, each, total = 16, 90, 12
	before := descriptors(t)
	rec := newRecorder()
	table := New(Config{Permits: total, Retention: 30 * time.Millisecond, Linger: 10 * time.Millisecond, Window: 8, Recorder: rec, Log: slog.New(slog.DiscardHandler)})
	l := &load{t: t, table: table}
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() { l.client(rand.New(rand.NewPCG(1, uint64(i))), each) })
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := table.Shutdown(ctx); err != nil {
		t.Fatalf("Shutdown = %v", err)
	}
	for _, c := range l.gone {
		c.judge(t, false)
	}
	for _, c := range l.up {
		c.judge(t, true)
	}
	judgeTrace(t, rec.events, total)
	if _, free := table.Permits(); free != total {
		t.Errorf("%d of %d permits are free", free, total)
	}
	if n, _ := table.reg.Counts(); n != 0 || len(table.driven) != 0 || len(table.conns) > len(l.up) {
		t.Errorf("%d commands, %d goroutines, %d connections are left", n, len(table.driven), len(table.conns))
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
}

// load is the state of the test.
type load struct {
	t     testing.TB
	table *Table

	mu       sync.Mutex
	up, gone []*conn
}

func (l *load) client(rng *rand.Rand, runs int) {
	ctx := context.Background()
	c := newConn()
	for range runs {
		id, err := l.request(rng, c)
		if err != nil {
			l.t.Errorf("Run = %v", err)
			return
		}
		for range rng.IntN(4) {
			some := id
			if rng.IntN(2) == 0 {
				some = ID(1 + rng.IntN(int(id)))
			}
			switch rng.IntN(5) {
			case 0:
				err = l.table.Cancel(ctx, some)
			case 1:
				err = l.table.Ack(ctx, some)
			case 2:
				err = l.table.Attach(ctx, some, c, func(ev Event) { c.add("snapshot " + show(ev)) })
			case 3:
				_, _, err = l.table.Artifact(ctx, some, Stdout, 0, 10)
			case 4:
				_, err = l.table.Wait(ctx, some, func(ev Event) bool { return ev.Kind.Terminal() })
			}
			if err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotFinished) {
				l.t.Errorf("answered %v", err)
			}
		}
		if rng.IntN(10) == 0 {
			l.table.Disconnect(ctx, c)
			l.mu.Lock()
			l.gone = append(l.gone, c)
			l.mu.Unlock()
			c = newConn()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = append(l.up, c)
}

// request asks for a run of one of several kinds. Those that do not end by
// themselves have a short deadline.
func (l *load) request(rng *rand.Rand, c *conn) (id ID, err error) {
	var token *string
	if rng.IntN(3) == 0 {
		s := fmt.Sprint("t", rng.IntN(8))
		token = &s
	}
	script := []string{"exit 0", "printf x", "kill -9 $$", "sleep 600 & exit 1", "exec sleep 600", "exec sleep 600"}[rng.IntN(6)]
	path := "/bin/sh"
	what := rng.IntN(12)
	if what == 0 {
		path = "/nonexistent"
	}
	s := Spec{Token: token, Permits: 1 + rng.IntN(3), Deadline: time.Duration(1+rng.IntN(250)) * time.Millisecond,
		Prepare: func(context.Context, ID) (*Prepared, error) {
			if what == 1 {
				return nil, errRefused
			}
			return &Prepared{Input: []byte("input"), Command: &execution.Command{
				Path: path, Args: []string{"sh", "-c", script}, Env: []string{"PATH=/bin:/usr/bin"},
				Capture: &execution.Capture{HeadBytes: 100},
			}}, nil
		}}
	err = l.table.Run(context.Background(), s, c, func(n ID) {
		id = n
		c.add(fmt.Sprint("id ", n))
	})
	return id, err
}

// judge looks at what a connection heard, run by run.
func (c *conn) judge(t testing.TB, up bool) {
	ended := map[string]string{} // by run: the ending that it heard, if any
	started := map[string]bool{} // by run
	for _, line := range c.heard() {
		words := strings.Fields(strings.TrimPrefix(line, "snapshot "))
		run := strings.TrimSuffix(words[1], ":")
		end, known := ended[run]
		snapshot := strings.HasPrefix(line, "snapshot ")
		switch kind := words[0]; {
		case kind == "id" || snapshot && (kind == "queued" || kind == "started"):
			ended[run] = end
			if snapshot && end != "" {
				t.Errorf("%q after the end %q", line, end)
			}
		case !known && !snapshot:
			t.Errorf("%q came before the reply", line)
		case kind == "started":
			if end != "" || started[run] {
				t.Errorf("%q is out of order", line)
			}
			started[run] = true
		case snapshot:
			ended[run] = line
		default:
			if end != "" {
				t.Errorf("%q came after %q", line, end)
			}
			ended[run] = line
		}
	}
	for run, end := range ended {
		if up && end == "" {
			t.Errorf("nobody was told how run %s ended", run)
		}
	}
}

// judgeTrace looks at the order of the transitions.
func judgeTrace(t testing.TB, events []trace.Event, total int64) {
	held, sum := map[uint64]int64{}, int64(0)
	stopped, spawned, ended := map[uint64]bool{}, map[uint64]bool{}, map[uint64]int{}
	var spawns, stops int
	for _, e := range events {
		attrs := map[string]any{}
		for _, a := range e.Attrs {
			attrs[a.Key] = a.Value
		}
		switch e.Action {
		case trace.RunGrant:
			if stopped[e.Run] || held[e.Run] != 0 {
				t.Errorf("event %d: run %d was granted", e.Seq, e.Run)
			}
			held[e.Run] = attrs["permits"].(int64)
			if sum += held[e.Run]; sum > total {
				t.Fatalf("event %d: %d of %d permits are held", e.Seq, sum, total)
			}
		case trace.RunSpawn:
			if stopped[e.Run] || spawned[e.Run] || held[e.Run] == 0 {
				t.Errorf("event %d: run %d got a process", e.Seq, e.Run)
			}
			spawned[e.Run] = true
			spawns++
		case trace.RunStop:
			if attrs["effective"].(bool) {
				if stopped[e.Run] || ended[e.Run] > 0 {
					t.Errorf("event %d: run %d was stopped again", e.Seq, e.Run)
				}
				stopped[e.Run] = true
				stops++
				if held[e.Run] == 0 { // in the queue: that was its end
					ended[e.Run]++
				}
			}
		case trace.RunExit, trace.RunSpawnFail, trace.RunAbort:
			if held[e.Run] == 0 || (e.Action == trace.RunSpawnFail && stopped[e.Run]) {
				t.Errorf("event %d: %s of run %d", e.Seq, e.Action, e.Run)
			}
			sum -= held[e.Run]
			held[e.Run] = 0
			if e.Action == trace.RunExit {
				break
			}
			fallthrough
		case trace.RunFinish, trace.RunReject:
			if ended[e.Run]++; ended[e.Run] > 1 {
				t.Errorf("event %d: run %d ended twice", e.Seq, e.Run)
			}
		}
	}
	t.Logf("%d runs, %d processes, %d stops", len(ended), spawns, stops)
	if len(ended) < 500 || spawns == 0 || stops == 0 {
		t.Errorf("%d spawns and %d stops: nothing was looked at", spawns, stops)
	}
}
