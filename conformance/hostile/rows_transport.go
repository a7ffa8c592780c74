package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
)

// slowloris is H2.
func slowloris() Row {
	return Row{
		ID: "H2", Name: "500 connections that send headers, or bodies, or read answers, a byte at a time",
		Expect:       "deadlines close them, the oldest that keep the daemon waiting make room, good requests are served meanwhile",
		Requirements: []string{"XPORT-4", "XPORT-5", "XPORT-6", "XPORT-9", "XPORT-30", "XPORT-31"},
		Cases: []Case{
			{Name: "headers", Do: slowHeaders},
			{Name: "hook bodies", Do: slowHookBodies},
			{Name: "hook bodies in every slot", Do: everySlot("hook bodies", func(*probe) string {
				return head("POST", api.HookPrefix+"/validate") + "Content-Length: 1000\r\n\r\n{"
			})},
			{Name: "start bodies in every slot", Do: everySlot("start bodies", func(p *probe) string {
				return head("POST", api.PathExecStart) + bearer(p) + "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
			})},
			{Name: "refused bodies in every slot", Do: everySlot("refused bodies", func(*probe) string {
				return head("POST", api.PathExecStart) + "Authorization: Bearer x\r\nContent-Length: 1000\r\n\r\n{"
			})},
			{Name: "answers not read", Do: answersNotRead},
			{Name: "open answers not read in every slot", Do: everySlot("unread answers", func(*probe) string {
				return strings.Repeat(head("GET", api.PathSchema)+"\r\n", 500)
			})},
			{Name: "honest requests all at once", Do: honestBurst},
		},
	}
}

// slowSenders is how many hold on to a connection at once.
const slowSenders = 500

// crowd opens n connections, sends the beginning of a request on each and
// returns them. The caller closes them.
func (p *probe) crowd(ctx context.Context, n int, input string) (peers []*peer, err error) {
	for range n {
		c, err := p.dial(ctx)
		if err != nil {
			return peers, err
		}
		peers = append(peers, c)
		if _, err := c.Write([]byte(input)); err != nil {
			continue // closed for a newcomer already
		}
	}
	return peers, nil
}

func closeAll(peers []*peer) {
	for _, c := range peers {
		c.Close()
	}
}

// dribble sends a byte on every connection, again and again, until each is
// closed or ctx ends. The bytes come faster than in the facts, so that a
// deadline that each byte would move shows the sooner.
func dribble(ctx context.Context, peers []*peer) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		for _, c := range peers {
			if _, err := c.Write([]byte("a")); err == nil {
				left++
			}
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// served makes a good request and notes how long it took.
func (p *probe) served(ctx context.Context, when string) error {
	began := time.Now()
	if err := p.expect(ctx, "GET", api.PathProcs, "", is(200)); err != nil {
		return fmt.Errorf("a good request %s: %w", when, err)
	}
	p.note("a good request %s took %.1f ms", when, float64(time.Since(began).Microseconds())/1000)
	return nil
}

func slowHeaders(ctx context.Context, p *probe) error {
	peers, err := p.crowd(ctx, slowSenders, "GET /v1/health HTTP/1.1\r\nHost: d\r\nX-Slow: ")
	defer closeAll(peers)
	if err != nil {
		return err
	}
	if err := p.served(ctx, "among slow headers"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { dribble(ctx, peers) })
	defer wg.Wait()
	defer cancel()
	for i, c := range peers {
		if err := c.closed(); err != nil {
			return fmt.Errorf("slow header %d of %d: %w", i+1, len(peers), err)
		}
	}
	return nil
}

// slowHookBodies holds half of the slots with bodies that never end: hooks ask
// for no credential, so anybody can.
func slowHookBodies(ctx context.Context, p *probe) error {
	input := head("POST", api.HookPrefix+"/validate") + "Content-Length: 1000\r\n\r\n"
	peers, err := p.crowd(ctx, p.Knobs.Connections/2, input)
	defer closeAll(peers)
	if err != nil {
		return err
	}
	if err := p.served(ctx, "among slow bodies"); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { dribble(ctx, peers) })
	defer wg.Wait()
	defer cancel()
	for i, c := range peers {
		r, err := c.answer("POST")
		if err != nil {
			return fmt.Errorf("slow body %d: %w", i+1, err)
		}
		if err := errors.Join(is(408).match(r), c.closed()); err != nil {
			return fmt.Errorf("slow body %d: %w", i+1, err)
		}
	}
	return nil
}

// everySlot holds on to more connections than are admitted, with requests that
// keep the daemon waiting, and expects a good request to be answered all the
// same. How long it took is noted; the bound is the case's.
func everySlot(what string, input func(*probe) string) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		text, n := input(p), p.Knobs.Connections+p.Knobs.Connections/8
		var wg sync.WaitGroup
		peers := make([]*peer, 0, n)
		defer wg.Wait()
		defer func() { closeAll(peers) }()
		for range n {
			c, err := p.dial(ctx)
			if err != nil {
				return err
			}
			peers = append(peers, c)
			wg.Go(func() { _, _ = io.WriteString(c, text) }) // ends with the connection
		}
		return p.served(ctx, fmt.Sprintf("among %d connections with %s", n, what))
	}
}

// honestBurst sends more good requests at once than there are slots, most of
// which streams hold: all of them are answered, since they queue.
func honestBurst(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
		return err
	}
	streams := make([]*peer, 0, p.Knobs.Connections)
	defer func() { closeAll(streams) }()
	for range p.Knobs.Connections - 1 {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		streams = append(streams, c)
		fmt.Fprintf(c, "%s%s\r\n", head("GET", execPath(id, "/stream")), bearer(p))
		if _, err := c.br.Peek(1); err != nil {
			return fmt.Errorf("no stream: %w", err)
		}
	}
	errs := make([]error, 64)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = p.exchange(ctx, head("GET", api.PathHealth)+"Connection: close\r\n\r\n", is(200)) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// answersNotRead leaves the answers of half of the slots unread: long ones, in
// a window that holds little of them.
func answersNotRead(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, zeros(p.Knobs.HeadBytes)); err != nil {
		return err
	}
	if _, err := p.follow(ctx, id, uint64(p.Knobs.HeadBytes)); err != nil {
		return err
	}
	peers := make([]*peer, 0, p.Knobs.Connections/2)
	defer func() { closeAll(peers) }()
	for range p.Knobs.Connections / 2 {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		peers = append(peers, c)
		if tcp, ok := c.Conn.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096) // the answer is longer than any buffer
		}
		fmt.Fprintf(c, "%s%s\r\n", head("GET", execPath(id, "")), bearer(p))
		if _, err := c.br.ReadByte(); err != nil { // it has begun to answer
			return fmt.Errorf("no answer: %w", err)
		}
	}
	return p.served(ctx, "among unread answers")
}

// oversizedHeads is H3.
func oversizedHeads() Row {
	raw := func(name string, w want, input func() string) Case {
		return Case{Name: name, Want: w.thenClosed(), Input: func(*probe) string { return input() }}
	}
	return Row{
		ID: "H3", Name: "10,000 header lines, a header of 10 MiB, a URL of 1 MiB",
		Expect:       "431 or 414, memory flat",
		Requirements: []string{"XPORT-1"},
		Cases: []Case{
			raw("10,000 header lines", is(431), func() string {
				return head("GET", api.PathHealth) + strings.Repeat("X-A: b\r\n", 10000) + "\r\n"
			}),
			raw("10,000 lines of one name each", is(431), func() string {
				var b strings.Builder
				for i := range 10000 {
					fmt.Fprintf(&b, "X-%d: b\r\n", i)
				}
				return head("GET", api.PathHealth) + b.String() + "\r\n"
			}),
			raw("a header of 10 MiB", is(431), func() string {
				return head("GET", api.PathHealth) + "X-A: " + strings.Repeat("b", 10<<20) + "\r\n\r\n"
			}),
			raw("a header name of 10 MiB", is(400, 431), func() string {
				return head("GET", api.PathHealth) + strings.Repeat("b", 10<<20) + ": x\r\n\r\n"
			}),
			raw("a URL of 1 MiB", is(414, 431), func() string {
				return head("GET", "/v1/exec/"+strings.Repeat("a", 1<<20)) + "\r\n"
			}),
			raw("a query of 1 MiB", is(414, 431), func() string {
				return head("GET", api.PathHealth+"?"+strings.Repeat("a", 1<<20)) + "\r\n"
			}),
			raw("a method of 1 MiB", is(400, 404, 405, 414, 431), func() string {
				return head(strings.Repeat("A", 1<<20), api.PathHealth) + "\r\n"
			}),
		},
	}
}

// foreignProtocols is H8.
func foreignProtocols() Row {
	raw := func(name, input string) Case {
		// 505 is for the preface of HTTP/2, which is a well-formed request line.
		return Case{Name: name, Want: is(400, 505).thenClosed(), Input: func(*probe) string { return input }}
	}
	return Row{
		ID: "H8", Name: "a TLS handshake, an HTTP/2 preface, an SSH banner, zeros",
		Expect:       "an HTTP refusal before any newline arrives, then closed; no raw byte and no long line in the log",
		Requirements: []string{"XPORT-11", "XPORT-1"},
		Cases: []Case{
			raw("beginning of a ClientHello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
			raw("cipher suites", "\x13\x01\x13\x02\x13\x03\xc0\x2b\xc0\x2f"),
			raw("a whole ClientHello", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x8a", 506)),
			raw("HTTP/2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"),
			raw("SSH banner", "SSH-2.0-OpenSSH_9.9\r\n"),
			raw("1 MiB of zeros", strings.Repeat("\x00", 1<<20)),
			raw("1 MiB of zeros after a method", "GET "+strings.Repeat("\x00", 1<<20)+"\r\n\r\n"),
			raw("escapes in the request line", "GET /\x1b[2J\x07 HTTP/1.1\r\nHost: d\r\n\r\n"),
			raw("an empty line first", "\n\n\n\n"),
			raw("another version", "GET /v1/health HTTP/3.0\r\nHost: d\r\n\r\n"),
		},
	}
}
