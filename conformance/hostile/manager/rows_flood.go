package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"microvms/agentd/api/msp"
	"microvms/conformance/hostile"
)

func floodRows() []Row {
	return []Row{{
		ID: "M4", Name: "floods of messages from a client that reads late or never",
		Expect:       "each message is answered once and in order, pings by the newest pong; who does not read is read no further; memory stays flat",
		Requirements: []string{"SOCKET-7", "SOCKET-16", "SOCKET-20", "SOCKET-22"},
		Cases: []Case{
			{"text, read late", inWith(flood(append(head(final|opText, 5), "hello"...), msp.CodeMalformedFrame))},
			{"empty messages, read late", inWith(flood(head(final|opBinary, 0), msp.CodeMalformedFrame))},
			{"unknown methods, read late", inWith(flood(append(head(final|opBinary, 10), raw(99, 0, nil)...), msp.CodeUnknownMethod))},
			{"pings, read late", inWith(pings)},
			{"requests, never read", neverRead},
		},
	}, {
		ID: "M5", Name: "connections that are opened and dropped in every way",
		Expect:       "nothing is left of them",
		Requirements: []string{"SOCKET-21", "MGR-16"},
		Cases:        []Case{{"one after another", comeAndGo}, {"a thousand at once", thousand}},
	}, {
		ID: "M6", Name: "connections that never finish the head of their upgrade, and bytes that are no HTTP",
		Expect:       "closed at the deadline of a head; a good run works meanwhile",
		Requirements: []string{"SOCKET-32"},
		Together:     true, Waits: true,
		Cases: []Case{
			{"500 heads without an end", slowHeads},
			{"a TLS hello", closes("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")},
			{"an SSH banner", closes("SSH-2.0-OpenSSH_9.9\r\n")},
			{"an HTTP/2 preface", closes("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
			{"a MiB of zeros", closes(string(make([]byte, 1<<20)))},
		},
	}}
}

// flood sends one frame many times before it reads, and wants each answered.
func flood(frame []byte, code msp.ErrorCode) func(context.Context, *probe, *peer) error {
	return func(_ context.Context, p *probe, c *peer) error {
		sent := make(chan error, 1)
		go func() {
			for range p.Knobs.Flood {
				if _, err := c.Write(frame); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		for i := range p.Knobs.Flood {
			if err := c.fails(0, code); err != nil {
				c.Close()
				return errors.Join(fmt.Errorf("message %d: %w", i, err), <-sent)
			}
		}
		if err := <-sent; err != nil {
			return err
		}
		return c.serves()
	}
}

// pings sends numbered pings before it reads: pongs come in order, the last one
// too, whatever was left out between.
func pings(_ context.Context, p *probe, c *peer) error {
	sent := make(chan error, 1)
	go func() {
		for i := range uint32(p.Knobs.Flood) {
			if err := c.frame(final|opPing, binary.BigEndian.AppendUint32(nil, i+1)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	newest := uint32(0)
	for newest < uint32(p.Knobs.Flood) {
		first, payload, err := c.next()
		if err != nil || first != final|opPong || len(payload) != 4 {
			c.Close()
			return errors.Join(fmt.Errorf("a frame %#x with %.20q came after pong %d: %v", first, payload, newest, err), <-sent)
		}
		n := binary.BigEndian.Uint32(payload)
		if n <= newest {
			return fmt.Errorf("pong %d came after pong %d", n, newest)
		}
		newest = n
	}
	if err := <-sent; err != nil {
		return err
	}
	return c.serves()
}

// neverRead sends requests until the manager takes no more, and then leaves.
// Others are served meanwhile.
func neverRead(ctx context.Context, p *probe) error {
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	frame := append(head(final|opBinary, 10), raw(99, 1, nil)...)
	var sent atomic.Int64
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for range 2_000_000 { // 40 MB, and 100 MB of answers
			if _, err := c.Write(frame); err != nil {
				return
			}
			sent.Add(1)
		}
	}()
	for range 5 {
		if err := p.alive(ctx); err != nil {
			return fmt.Errorf("beside it: %w", err)
		}
	}
	// It is over when no request leaves any more, or when the last one has left.
	still, last, over := 0, int64(-1), false
	err = hostile.Await(ctx, "the manager reads no further", func() (bool, error) {
		select {
		case <-stopped:
			over = true
		default:
		}
		now := sent.Load()
		if now != last {
			still = 0
		}
		last, still = now, still+1
		return over || still > 200, nil
	})
	c.Close()
	<-stopped
	if over {
		err = errors.New("every request was read, though no answer was")
	}
	if err != nil {
		return err
	}
	p.note("a client that reads nothing got rid of %d requests", sent.Load())
	return nil
}

// ways are how a connection may be dropped.
var ways = []func(ctx context.Context, p *probe) error{
	func(ctx context.Context, p *probe) error { return p.dialThen(ctx, "") },
	func(ctx context.Context, p *probe) error { return p.dialThen(ctx, goodUpgrade[:40]) },
	func(ctx context.Context, p *probe) error { return p.dialThen(ctx, goodUpgrade) },
	with(func(*peer) error { return nil }),
	with((*peer).reset),
	with(func(c *peer) error { return c.frame(opBinary, []byte("half")) }),
	with(func(c *peer) error { return c.frame(final|opClose, []byte{3, 232}) }),
	with((*peer).serves),
}

func (p *probe) dialThen(ctx context.Context, input string) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.WriteString(c, input)
	return err
}

// reset makes the end of the connection a reset.
func (c *peer) reset() error {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		return t.SetLinger(0)
	}
	return nil
}

func comeAndGo(ctx context.Context, p *probe) error {
	var wg sync.WaitGroup
	const clients = 8
	errs := make([]error, clients)
	for i := range clients {
		wg.Go(func() {
			for n := i; n < p.Knobs.Turns && errs[i] == nil; n += clients {
				errs[i] = ways[n/clients%len(ways)](ctx, p)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// thousand holds many connections at once, each of which attaches to one run,
// and drops them: the run goes on.
func thousand(ctx context.Context, p *probe) error {
	owner, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer owner.Close()
	id, err := owner.start(run("hang"))
	if err != nil {
		return err
	}
	if ev, err := owner.event(); err != nil || ev.Started == nil {
		return fmt.Errorf("the run did not start: %v", err)
	}
	peers := make([]*peer, min(1000, p.Knobs.Turns))
	defer func() {
		for _, c := range peers {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range peers {
		c, err := p.open(ctx)
		if err != nil {
			return err
		}
		peers[i] = c
		var snapshot msp.AttachReply
		if err := c.ask(&msp.Request{Attach: &msp.Attach{BootID: c.boot, GenvmID: id}}, &snapshot); err != nil {
			return err
		}
		if snapshot.Snapshot.Started == nil {
			return fmt.Errorf("the run is %s on connection %d", snapshot.Snapshot.Kind(), i)
		}
	}
	for i, c := range peers {
		if i%2 == 0 {
			_ = c.reset()
		}
		c.Close()
	}
	if err := owner.cancel(id); err != nil {
		return err
	}
	ev, err := owner.finish(id)
	if err != nil || ev.Finished == nil || ev.Finished.Cause != msp.Cancelled {
		return fmt.Errorf("the run ended as %+v: %v", ev, err)
	}
	return owner.ack(id)
}

func slowHeads(ctx context.Context, p *probe) error {
	const n = 500
	peers := make([]*peer, n)
	defer func() {
		for _, c := range peers {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range peers {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		peers[i] = c
		if _, err := io.WriteString(c, goodUpgrade[:1+i%(len(goodUpgrade)-1)]); err != nil {
			return err
		}
	}
	for range 3 {
		if err := p.alive(ctx); err != nil {
			return fmt.Errorf("beside them: %w", err)
		}
	}
	for i, c := range peers {
		if _, err := io.Copy(io.Discard, c.br); timedOut(err) {
			return fmt.Errorf("connection %d was not closed", i)
		}
	}
	return nil
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// closes sends bytes that are no HTTP: the connection is closed, with an answer
// or without.
func closes(input string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		_, _ = io.WriteString(c, input) // it may close before all is sent
		if _, err := io.Copy(io.Discard, c.br); timedOut(err) {
			return errors.New("the connection was not closed")
		}
		return nil
	}
}
