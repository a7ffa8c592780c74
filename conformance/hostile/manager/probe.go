package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/conformance/hostile"
)

// probe speaks to the manager for the cases of one row. Its methods may be called
// concurrently.
type probe struct {
	Target
	http *http.Client
	seq  atomic.Uint64

	mu    sync.Mutex
	notes []string
}

func newProbe(t Target) *probe {
	p := &probe{Target: t}
	var d net.Dialer
	p.http = &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, t.Network, t.Address)
		},
	}}
	return p
}

func (p *probe) close() { p.http.CloseIdleConnections() }

func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// token returns a run token that no other case uses.
func (p *probe) token() *string {
	t := fmt.Sprintf("hostile-%d-%d", time.Now().UnixNano(), p.seq.Add(1))
	return &t
}

// run is the request of a run of the demonstration executor.
func run(steps ...string) *msp.RunRequest {
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: Executor}
	r.IsSync, r.DebugMode = true, msp.DebugSafe
	r.HostData, r.Host, r.Calldata = "{}", "unix:///nowhere", []byte{0}
	r.BucketTotals = []calldata.Int{}
	r.Timestamp = msp.At(time.Unix(0, 0))
	r.ExtraArgs = steps
	return r
}

// start starts a run and returns its id.
func (c *peer) start(r *msp.RunRequest) (uint64, error) {
	var reply msp.RunReply
	err := c.ask(&msp.Request{Run: r}, &reply)
	return reply.GenvmID, err
}

// finish reads events up to the terminal one of the run, which is never nil.
func (c *peer) finish(id uint64) (*msp.Event, error) {
	for {
		ev, err := c.event()
		if err != nil {
			return ev, fmt.Errorf("run %d did not end: %w", id, err)
		}
		if ev.GenvmID() == id && ev.Terminal() {
			return ev, nil
		}
	}
}

// whole runs the request to its end, which must be finished.
func (c *peer) whole(r *msp.RunRequest) (*msp.Finished, error) {
	id, err := c.start(r)
	if err != nil {
		return nil, err
	}
	ev, err := c.finish(id)
	if err != nil {
		return nil, err
	}
	if ev.Finished == nil {
		return nil, fmt.Errorf("run %d ended as %s: %.200q", id, ev.Kind(), ev.FailedToStart.Error)
	}
	return ev.Finished, nil
}

func (c *peer) cancel(id uint64) error {
	return c.ask(&msp.Request{Cancel: &msp.Target{GenvmID: id}}, &msp.Empty{})
}

func (c *peer) ack(id uint64) error {
	return c.ask(&msp.Request{Ack: &msp.Target{GenvmID: id}}, &msp.Empty{})
}

// page reads one page of an artifact.
func (c *peer) page(id uint64, field msp.Artifact, offset uint64) (total uint64, data []byte, err error) {
	var reply msp.ArtifactReply
	err = c.ask(&msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: field, Offset: offset, MaxLen: msp.ChunkBytes}}, &reply)
	return reply.TotalLen, reply.Data, err
}

// status is what GET /status tells.
type status struct {
	Permits    struct{ Current, Max int }
	Executions map[string]json.RawMessage
}

func (p *probe) status(ctx context.Context) (s status, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/status", nil)
	if err != nil {
		return s, err
	}
	a, err := p.http.Do(r)
	if err != nil {
		return s, fmt.Errorf("the status route does not answer: %w", err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != http.StatusOK {
		err = fmt.Errorf("the status route answered %d", a.StatusCode)
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

// alive fails unless the status route answers and a good run works.
func (p *probe) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.Limit)
	defer cancel()
	if _, err := p.status(ctx); err != nil {
		return err
	}
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	f, err := c.whole(run("stdout=good"))
	if err != nil {
		return err
	}
	total, data, err := c.page(f.GenvmID, msp.Stdout, 0)
	if err != nil {
		return err
	}
	if f.Cause != msp.Exited || f.ExitCode == nil || *f.ExitCode != 0 || string(data) != "good" || total != 4 || len(f.Consumed) == 0 {
		return fmt.Errorf("a good run ended as %+v with the output %.40q", *f, data)
	}
	return c.ack(f.GenvmID)
}

// release cancels and acks every run that the status route lists, and fails
// unless all permits are back then.
func (p *probe) release(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.Settle+p.Knobs.Linger)
	defer cancel()
	c, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return hostile.Await(ctx, "every run is released and every permit back", func() (bool, error) {
		s, err := p.status(ctx)
		if err != nil {
			return false, err
		}
		for text := range s.Executions {
			id, err := strconv.ParseUint(text, 10, 64)
			if err == nil {
				err = c.letGo(id)
			}
			if err != nil {
				return false, err
			}
		}
		return len(s.Executions) == 0 && s.Permits.Current == s.Permits.Max, nil
	})
}

// letGo cancels a run and acks it if it has ended.
func (c *peer) letGo(id uint64) error {
	err := c.cancel(id)
	if err == nil {
		err = c.ack(id)
	}
	var e *msp.Error
	if errors.As(err, &e) && (e.Code == msp.CodeUnknownID || e.Code == msp.CodeNotFinished) {
		return nil
	}
	return err
}

// with opens a connection for do and closes it.
func with(do func(c *peer) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		c, err := p.open(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(c)
	}
}

// serves fails unless the connection still answers.
func (c *peer) serves() error {
	if err := c.refused(&msp.Request{Cancel: &msp.Target{GenvmID: 1 << 63}}, msp.CodeUnknownID); err != nil {
		return fmt.Errorf("the connection does not serve any more: %w", err)
	}
	return nil
}

// withMax is with, for cases about the largest message.
func withMax(do func(c *peer, max int64) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		return with(func(c *peer) error { return do(c, p.Knobs.MaxMessage) })(ctx, p)
	}
}
