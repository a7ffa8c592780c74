package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"microvms/agentd/api"
)

// unreadStream is H12 without its ten minutes, which the tests pass by the
// clock.
func unreadStream() Row {
	return Row{
		ID: "H12", Name: "a stream reader that reads nothing while the child writes 10 GiB",
		Expect:       "the child is not blocked, memory stays at the ring, the reader gets a gap and then data, or is cut",
		Requirements: []string{"OUT-6", "OUT-7", "OUT-17", "OUT-19", "OUT-20", "HEALTH-6"},
		Cases:        []Case{{Name: "read after the end", Do: readAfterTheEnd}},
	}
}

func readAfterTheEnd(ctx context.Context, p *probe) error {
	id := p.id()
	begin := "read line; exec head -c " + fmt.Sprint(p.Knobs.Volume) + " /dev/zero"
	if err := p.start(ctx, id, script(begin).with("stdin", true)); err != nil {
		return err
	}
	dead, err := p.attach(ctx, id, 0)
	if err != nil {
		return err
	}
	defer dead.Close()
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"data_b64":"Cg=="}`, is(200)); err != nil {
		return err
	}
	// Another reader follows to the end, which comes only if the dead one slows
	// nobody.
	t, err := p.follow(ctx, id, 0)
	if err != nil {
		return fmt.Errorf("the other reader: %w", err)
	}
	if t.exit.Offset != uint64(p.Knobs.Volume) {
		return fmt.Errorf("%d of %d bytes were published", t.exit.Offset, p.Knobs.Volume)
	}
	late, err := dead.events(0)
	if late.exit == nil {
		p.note("the dead reader was cut: %v", err)
		if errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}
	if err != nil {
		return err
	}
	if late.gapBytes == 0 {
		return fmt.Errorf("the dead reader got all of %d bytes from a ring of %d", p.Knobs.Volume, p.Knobs.RingBytes)
	}
	p.note("the dead reader missed %d of %d bytes", late.gapBytes, p.Knobs.Volume)
	return nil
}

// manyReaders is H13.
func manyReaders() Row {
	return Row{
		ID: "H13", Name: "2,000 readers of one exec; readers that come and go 10,000 times",
		Expect:       "at most 128 at once, the others wait; each gets everything; nothing is left of them",
		Requirements: []string{"XPORT-4", "OUT-12", "OUT-13", "EXEC-35"},
		Cases: []Case{
			{Name: "2,000 by turns", Do: readersByTurns},
			{Name: "one more than the cap waits", Do: oneMoreWaits},
			{Name: "come and go", Do: comeAndGo},
		},
	}
}

const readers = 2000

// readersByTurns has more readers than connections at once; each must get the
// whole output.
func readersByTurns(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("printf 0123456789")); err != nil {
		return err
	}
	return p.crew(2*p.Knobs.Connections, readers, func() error {
		s, err := p.attach(ctx, id, 0)
		if err != nil {
			return err
		}
		defer s.Close()
		t, err := s.events(0)
		if err == nil && string(t.out) != "0123456789" {
			err = fmt.Errorf("a reader got %q", t.out)
		}
		return err
	})
}

// crew does a job n times, by so many workers at once, until the first error.
func (p *probe) crew(workers, n int, job func() error) error {
	var wg sync.WaitGroup
	var next atomic.Int64
	first := make(chan error, workers)
	for range workers {
		wg.Go(func() {
			for next.Add(1) <= int64(n) {
				if err := job(); err != nil {
					next.Store(int64(n))
					first <- err
					return
				}
			}
		})
	}
	wg.Wait()
	select {
	case err := <-first:
		return err
	default:
		return nil
	}
}

// oneMoreWaits fills every slot with a stream. One more is not served, and cuts
// none of them, until one has left.
func oneMoreWaits(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	streams := make([]*peer, p.Knobs.Connections)
	for i := range streams {
		s, err := p.attach(ctx, id, 0)
		if err != nil {
			return fmt.Errorf("stream %d of %d: %w", i+1, len(streams), err)
		}
		defer s.Close()
		streams[i] = s
	}
	last, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer last.Close()
	fmt.Fprintf(last, "%s\r\n", head("GET", api.PathHealth))
	until, _ := ctx.Deadline()
	// A window of observation: a daemon that is slow to break the rule passes.
	_ = last.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := last.br.Peek(1); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("connection %d was answered or closed: %v", len(streams)+1, err)
	}
	_ = last.SetReadDeadline(until)
	streams[0].Close()
	r, err := last.answer("GET")
	if err != nil {
		return fmt.Errorf("the one that waited: %w", err)
	}
	last.Close()
	if err := is(200).match(r); err != nil {
		return fmt.Errorf("the one that waited: %w", err)
	}
	if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"data_b64":"aGVsbG8=","signal":"eof"}`, is(200)); err != nil {
		return err
	}
	for i, s := range streams[1:] {
		t, err := s.events(0)
		if err != nil || string(t.out) != "hello" {
			return fmt.Errorf("stream %d of %d got %q: %w", i+2, len(streams), t.out, err)
		}
	}
	return nil
}

// comeAndGo attaches and leaves without a word, in every way of leaving.
func comeAndGo(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	var turn atomic.Int64
	request := head("GET", execPath(id, "/stream")) + bearer(p) + "\r\n"
	err := p.crew(32, p.Knobs.Turns, func() error {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		switch turn.Add(1) % 3 {
		case 0: // before the request is whole
			_, _ = c.Write([]byte(request[:len(request)/2]))
		case 1: // before the answer
			_, _ = c.Write([]byte(request))
		default: // after the header
			_, _ = c.Write([]byte(request))
			if line, err := c.br.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
				return fmt.Errorf("a reader got %q: %w", line, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	g, err := p.group(ctx, id)
	if err != nil {
		return err
	}
	if g.ChildExited || len(g.Pids) != 1 {
		return fmt.Errorf("the exec was disturbed: %+v", g)
	}
	poll, err := p.poll(ctx, id)
	if err == nil && poll.Phase != api.PhaseRunning {
		err = fmt.Errorf("the exec is in phase %q", poll.Phase)
	}
	return err
}
