package manager

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"microvms/agentd/api/msp"
	"microvms/conformance/hostile"
)

func tokenRows() []Row {
	return []Row{{
		ID: "W6", Name: "run requests that repeat a run token",
		Expect:       "the id of the known run whatever the body, one executor, one ending for each connection; after an ack a fresh run",
		Requirements: []string{"MGR-1", "MGR-3", "MGR-4", "MGR-5", "MGR-6", "MGR-19", "MGR-28"},
		Cases: []Case{
			{"the same body while it runs", inWith(sameBody)},
			{"another body", inWith(otherBody)},
			{"a body that does not decode", inWith(brokenBody)},
			{"after the end", inWith(afterEnd)},
			{"after the ack", inWith(afterAck)},
			{"after a failed start", inWith(afterFailure)},
			{"during the start of the first", atOnce},
			{"tokens of no and of many bytes", inWith(oddTokens)},
		},
	}}
}

// inWith opens a connection for do and closes it.
func inWith(do func(ctx context.Context, p *probe, c *peer) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return with(func(c *peer) error { return do(ctx, p, c) })(ctx, p)
	}
}

// named is run with a token.
func named(token *string, steps ...string) *msp.RunRequest {
	r := run(steps...)
	r.Token = token
	return r
}

// repeats sends the request, which must get the id of a known run.
func (c *peer) repeats(r *msp.RunRequest, id uint64) error {
	got, err := c.start(r)
	if err == nil && got != id {
		err = fmt.Errorf("a repeat got run %d, want %d", got, id)
	}
	return err
}

func sameBody(ctx context.Context, p *probe, c *peer) error {
	r := named(p.token(), "hang")
	id, err := c.start(r)
	if err != nil {
		return err
	}
	if ev, err := c.event(); err != nil || ev.Started == nil {
		return fmt.Errorf("the run did not start: %v", err)
	}
	before := p.held().executors
	for range 20 {
		if err := c.repeats(r, id); err != nil {
			return err
		}
	}
	// SOCKET-13: the reply to the cancel comes after all that the repeats queued.
	if err := c.cancel(id); err != nil {
		return err
	}
	if after := p.held().executors; after > before {
		return fmt.Errorf("%d executors before the repeats, %d after", before, after)
	}
	ev, err := c.event()
	if err != nil || ev.Finished == nil || ev.Finished.Cause != msp.Cancelled {
		return fmt.Errorf("after 20 repeats came %+v: %v", ev, err)
	}
	if err := c.ack(id); err != nil {
		return err
	}
	return c.quiet()
}

// quiet fails if an event came that was not read, before the reply to a request
// that changes nothing.
func (c *peer) quiet() error {
	if err := c.serves(); err != nil {
		return err
	}
	if len(c.events) > 0 {
		return fmt.Errorf("an event %s came that was not due", c.events[0].Kind())
	}
	return nil
}

func otherBody(_ context.Context, p *probe, c *peer) error {
	token := p.token()
	f, err := c.whole(named(token, "stdout=first"))
	if err != nil {
		return err
	}
	other := named(token, "stdout=second", "exit=3")
	other.DebugMode, other.Selector = msp.DebugDisabled, msp.Selector{IsVersion: true, Version: "../other"}
	if err := c.repeats(other, f.GenvmID); err != nil {
		return err
	}
	if err := c.quiet(); err != nil { // it had its ending
		return err
	}
	_, data, err := c.page(f.GenvmID, msp.Stdout, 0)
	if err != nil || string(data) != "first" {
		return fmt.Errorf("the output is %.40q: %v", data, err)
	}
	return c.ack(f.GenvmID)
}

func brokenBody(_ context.Context, p *probe, c *peer) error {
	token := p.token()
	f, err := c.whole(named(token, "stdout=x"))
	if err != nil {
		return err
	}
	b, err := runWith(99, "host_genvm_id", append(number(nil, uint64(len(*token)), tagString), *token...))
	if err != nil {
		return err
	}
	if err := c.say(append(b, 0)); err != nil {
		return err
	}
	if err := c.fails(99, msp.CodeMalformedFrame); err != nil {
		return err
	}
	if err := c.quiet(); err != nil {
		return err
	}
	return c.ack(f.GenvmID)
}

func afterEnd(ctx context.Context, p *probe, c *peer) error {
	r := named(p.token(), "stdout=x", "exit=7")
	f, err := c.whole(r)
	if err != nil {
		return err
	}
	other, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	for range 3 {
		if err := other.repeats(r, f.GenvmID); err != nil {
			return err
		}
	}
	ev, err := other.event()
	if err != nil {
		return err
	}
	if g := ev.Finished; g == nil || g.FinishedAt != f.FinishedAt || g.ExitCode == nil || *g.ExitCode != 7 {
		return fmt.Errorf("the repeat's ending is %+v, the first one was %+v", g, f)
	}
	if err := other.quiet(); err != nil { // exactly one
		return err
	}
	return other.ack(f.GenvmID)
}

func afterAck(_ context.Context, p *probe, c *peer) error {
	r := named(p.token(), "stdout=x")
	f, err := c.whole(r)
	if err != nil {
		return err
	}
	if err := c.ack(f.GenvmID); err != nil {
		return err
	}
	if err := c.refused(&msp.Request{Ack: &msp.Target{GenvmID: f.GenvmID}}, msp.CodeUnknownID); err != nil {
		return err
	}
	g, err := c.whole(r)
	if err != nil {
		return err
	}
	if g.GenvmID <= f.GenvmID {
		return fmt.Errorf("after the ack of run %d the token is run %d", f.GenvmID, g.GenvmID)
	}
	return c.ack(g.GenvmID)
}

func afterFailure(_ context.Context, p *probe, c *peer) error {
	r := named(p.token(), "stdout=x")
	r.Selector.Version = "no-such-executor"
	id, err := c.start(r)
	if err != nil {
		return err
	}
	ev, err := c.finish(id)
	if err != nil || ev.FailedToStart == nil {
		return fmt.Errorf("ended as %+v: %v", ev, err)
	}
	r.Selector.Version = Executor // would start now
	if err := c.repeats(r, id); err != nil {
		return err
	}
	if err := c.quiet(); err != nil {
		return err
	}
	return c.ack(id)
}

// atOnce repeats one token from many connections while the first starts.
func atOnce(ctx context.Context, p *probe) error {
	const n = 32
	before := p.held().executors
	r := named(p.token(), "hang")
	peers, ids, errs := make([]*peer, n), make([]uint64, n), make([]error, n)
	for i := range peers {
		c, err := p.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		peers[i] = c
	}
	var wg sync.WaitGroup
	for i, c := range peers {
		wg.Go(func() { ids[i], errs[i] = c.start(r) })
	}
	wg.Wait()
	for i := range ids {
		if errs[i] != nil || ids[i] != ids[0] {
			return fmt.Errorf("connection %d got run %d, another run %d: %v", i, ids[i], ids[0], errs[i])
		}
	}
	if p.Executors != "" {
		err := hostile.Await(ctx, "the executor is there", func() (bool, error) { return p.held().executors > before, nil })
		if now := p.held().executors; err != nil || now != before+1 {
			return fmt.Errorf("%d executors before, %d now: %v", before, now, err)
		}
	}
	if err := peers[0].cancel(ids[0]); err != nil {
		return err
	}
	for i, c := range peers {
		ev, err := c.finish(ids[0])
		if err == nil && (ev.Finished == nil || ev.Finished.Cause != msp.Cancelled) {
			err = fmt.Errorf("ended as %+v", ev)
		}
		if err == nil {
			err = c.quiet()
		}
		if err != nil {
			return fmt.Errorf("connection %d: %w", i, err)
		}
	}
	return peers[0].ack(ids[0])
}

func oddTokens(_ context.Context, _ *probe, c *peer) error {
	for _, token := range []string{"", "\x00", "\x1b[2J\r\n", "../..", strings.Repeat("t", 1<<18), "\u2028"} {
		r := named(&token, "stdout=x")
		f, err := c.whole(r)
		if err != nil {
			return fmt.Errorf("a token of %d bytes: %w", len(token), err)
		}
		if f.Token == nil || *f.Token != token {
			return fmt.Errorf("a token of %d bytes came back as another", len(token))
		}
		if err := c.repeats(r, f.GenvmID); err != nil {
			return err
		}
		if err := c.ack(f.GenvmID); err != nil {
			return err
		}
	}
	b, err := runWith(99, "host_genvm_id", octets("0cff")) // no UTF-8
	if err == nil {
		err = c.say(b)
	}
	if err == nil {
		err = c.fails(99, msp.CodeMalformedFrame)
	}
	if err != nil {
		return err
	}
	return c.quiet()
}
