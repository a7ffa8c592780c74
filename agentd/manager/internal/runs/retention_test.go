package runs

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"
)

// An ended run is kept for the retention, counted from its end, whatever is read
// meanwhile; then it is as if it had been acked.
func TestRetention(t *testing.T) {
	t.Attr("requirement", "MGR-23")
	t.Attr("requirement", "MGR-19")
	for _, refuse := range []error{nil, errRefused} {
		w := newWorld(t, Config{Retention: time.Minute})
		id, ch := w.run(nil, order{token: "t", refuse: refuse})
		if refuse == nil {
			w.wait1(t, id)
			w.clock.advance(time.Second) // what passes before the end does not count
			ch.obey(t, "exit 0")
		}
		w.wait(id)
		w.clock.pending(t, time.Minute, 1)
		w.clock.advance(time.Minute - time.Nanosecond)
		if err := w.attach(newConn(), id); err != nil {
			t.Errorf("Attach before the expiry = %v", err)
		}
		if _, err := w.read(id, Stdout); refuse == nil && err != nil {
			t.Errorf("Artifact before the expiry = %v", err)
		}
		w.clock.advance(time.Nanosecond)
		if err := w.attach(newConn(), id); err != ErrUnknown {
			t.Errorf("Attach after the expiry = %v", err)
		}
		if err := w.ack(id); err != ErrUnknown {
			t.Errorf("Ack after the expiry = %v", err)
		}
		if len(w.table.Status()) != 0 || len(w.table.tokens) != 0 {
			t.Error("the run is still known")
		}
		if again, _ := w.run(nil, order{token: "t", refuse: errRefused}); again != 2 {
			t.Errorf("its token got id %d", again)
		}
	}
}

// Of acks that race, one is granted.
func TestAcksRace(t *testing.T) {
	t.Attr("requirement", "MGR-20")
	w := newWorld(t, Config{})
	for range 20 {
		id, _ := w.run(nil, order{refuse: errRefused})
		w.wait(id)
		errs := make([]error, 8)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { errs[i] = w.ack(id) })
		}
		wg.Wait()
		granted := 0
		for _, err := range errs {
			switch {
			case err == nil:
				granted++
			case err != ErrUnknown:
				t.Errorf("Ack = %v", err)
			}
		}
		if granted != 1 {
			t.Fatalf("%d acks were granted", granted)
		}
	}
	if n := w.clock.count(DefaultRetention); n != 0 {
		t.Errorf("%d retention timers of acked runs", n)
	}
}

// Pages are as long as asked for, within the cap and the artifact, the same each
// time, and not even an append to one changes the next.
func TestPages(t *testing.T) {
	t.Attr("requirement", "MGR-22")
	w := newWorld(t, Config{})
	id, ch := w.run(nil, order{})
	ch.obey(t, "head -c 600000 /dev/zero | tr '\\0' x; exit 0")
	w.wait(id)
	const size = 600000
	for _, c := range []struct {
		offset uint64
		limit  uint32
		want   int
	}{
		{0, 10, 10}, {0, 0, 0}, {0, PageBytes, PageBytes}, {0, 1<<32 - 1, PageBytes},
		{524288, PageBytes, size - 524288}, {size - 1, 5, 1}, {size, 5, 0}, {1 << 63, 5, 0}, {1<<64 - 1, 1<<32 - 1, 0},
	} {
		for range 2 {
			total, data, err := w.table.Artifact(context.Background(), id, Stdout, c.offset, c.limit)
			if total != size || len(data) != c.want || err != nil || strings.Trim(string(data), "x") != "" {
				t.Errorf("page %d+%d: %d of %d bytes, %v", c.offset, c.limit, len(data), total, err)
			}
			_ = append(data, "changed"...)
		}
	}
	var whole int
	for offset := uint64(0); ; {
		total, data, err := w.table.Artifact(context.Background(), id, Stdout, offset, PageBytes)
		if err != nil {
			t.Fatal(err)
		}
		whole += len(data)
		if offset += uint64(len(data)); offset == total {
			break
		}
	}
	if whole != size {
		t.Errorf("the pages hold %d bytes", whole)
	}
}
