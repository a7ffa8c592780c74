package manager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"microvms/agentd/api/msp"
)

const (
	bulkBytes = 4 << 20 // of the artifact that is asked for, all that mode safe keeps
	// mostAhead is how many pages may arrive ahead of an event on one connection:
	// what the two socket buffers and the page in hand may hold.
	mostAhead = 64
)

func bulkRows() []Row {
	return []Row{{
		ID: "W8", Name: "a client that asks for 10,000 artifact pages and reads them late, slowly, or never",
		Expect:       "control messages pass: on other connections at once, on its own ahead of the pages that wait",
		Requirements: []string{"SOCKET-14", "SOCKET-17", "SOCKET-22", "MGR-22"},
		Cases: []Case{
			{"never: another connection", besideStopped},
			{"late: an ending on the same connection", aheadOfPages},
			{"at full speed: endings on both", besideBulk},
		},
	}}
}

// bulk is a connection with a finished run of bulkBytes of output.
func (p *probe) bulk(ctx context.Context) (*peer, uint64, error) {
	c, err := p.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(64 << 10)
	}
	f, err := c.whole(run(fmt.Sprintf("stdout-bytes=%d", bulkBytes)))
	if err == nil && f.Sizes.Stdout != bulkBytes {
		err = fmt.Errorf("the artifact has %d bytes, want %d", f.Sizes.Stdout, bulkBytes)
	}
	if err != nil {
		c.Close()
		return nil, 0, err
	}
	return c, f.GenvmID, nil
}

// askPages asks for n pages, without reading any, in a goroutine that ends with
// the connection.
func (c *peer) askPages(id uint64, n int) <-chan error {
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			offset := uint64(i) % (bulkBytes / msp.ChunkBytes) * msp.ChunkBytes
			if _, err := c.send(&msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id, Field: msp.Stdout, Offset: offset, MaxLen: msp.ChunkBytes}}); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	return sent
}

// besideStopped has one client ask for pages and read none; another one's
// requests and runs pass.
func besideStopped(ctx context.Context, p *probe) error {
	c, id, err := p.bulk(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := c.askPages(id, p.Knobs.Pages)
	other, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	var spans []time.Duration
	for range 200 {
		t := time.Now()
		if err := other.serves(); err != nil {
			return err
		}
		spans = append(spans, time.Since(t))
	}
	for range 5 {
		f, err := other.whole(run("stdout=x"))
		if err == nil {
			err = other.ack(f.GenvmID)
		}
		if err != nil {
			return err
		}
	}
	c.Close()
	_ = <-sent // the close is what ended it
	return p.prompt("a control reply beside a client that reads nothing", spans)
}

// prompt notes spans and holds the longest to the knob.
func (p *probe) prompt(what string, spans []time.Duration) error {
	slices.Sort(spans)
	p99, most := spans[len(spans)*99/100], spans[len(spans)-1]
	p.note("%s: p99 %v, max %v", what, p99, most)
	if p.Knobs.Prompt > 0 && most > p.Knobs.Prompt {
		return fmt.Errorf("%s took %v, at most %v are allowed", what, most, p.Knobs.Prompt)
	}
	return nil
}

// aheadOfPages ends a run while pages wait on the connection that is subscribed
// to it: the ending comes ahead of those that are still queued, and every page
// comes.
func aheadOfPages(ctx context.Context, p *probe) error {
	c, id, err := p.bulk(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	hanging, err := c.start(run("hang"))
	if err != nil {
		return err
	}
	if ev, err := c.event(); err != nil || ev.Started == nil {
		return fmt.Errorf("the run did not start: %v", err)
	}
	sent := c.askPages(id, p.Knobs.Pages)
	if err := p.endElsewhere(ctx, c.boot, hanging); err != nil {
		return err
	}
	ended, pages := -1, 0
	for pages < p.Knobs.Pages || ended < 0 {
		h, payload, err := c.message()
		switch {
		case err != nil:
			return fmt.Errorf("after %d pages: %w", pages, err)
		case h.Method == msp.MethodGetArtifact:
			if len(payload) < msp.ChunkBytes {
				return fmt.Errorf("page %d has a reply of %d bytes", pages, len(payload))
			}
			pages++
		case h.Method == msp.MethodEvent && ended < 0:
			ended = pages
		default:
			return fmt.Errorf("a %v of request %d came after %d pages", h.Method, h.Request, pages)
		}
	}
	p.note("the ending came after %d of %d pages", ended, pages)
	if ended > mostAhead {
		return fmt.Errorf("the ending came after %d of %d pages, at most %d are in the buffers", ended, pages, mostAhead)
	}
	if err := <-sent; err != nil {
		return err
	}
	return c.ack(hanging)
}

// endElsewhere cancels the run from a connection of its own and returns when the
// ending was told there.
func (p *probe) endElsewhere(ctx context.Context, boot, id uint64) error {
	other, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	var snapshot msp.AttachReply
	if err := other.ask(&msp.Request{Attach: &msp.Attach{BootID: boot, GenvmID: id}}, &snapshot); err != nil {
		return err
	}
	if err := other.cancel(id); err != nil {
		return err
	}
	ev, err := other.finish(id)
	if err == nil && (ev.Finished == nil || ev.Finished.Cause != msp.Cancelled) {
		err = fmt.Errorf("the run ended as %s", ev.Kind())
	}
	return err
}

// besideBulk has a client read pages as fast as they come while another one runs
// and asks.
func besideBulk(ctx context.Context, p *probe) error {
	c, id, err := p.bulk(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := c.askPages(id, p.Knobs.Pages)
	read := make(chan error, 1)
	go func() {
		for i := range p.Knobs.Pages {
			h, _, err := c.message()
			if err == nil && h.Method != msp.MethodGetArtifact {
				err = fmt.Errorf("a %v of request %d came as page %d", h.Method, h.Request, i)
			}
			if err != nil {
				read <- err
				return
			}
		}
		read <- nil
	}()
	other, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer other.Close()
	var spans []time.Duration
	for done := false; !done; {
		t := time.Now()
		if err := other.serves(); err != nil {
			return err
		}
		spans = append(spans, time.Since(t))
		if len(spans)%100 == 1 {
			f, err := other.whole(run("stdout=x"))
			if err == nil {
				err = other.ack(f.GenvmID)
			}
			if err != nil {
				return err
			}
		}
		select {
		case err := <-read:
			if err != nil {
				return errors.Join(err, c.Close(), <-sent)
			}
			done = true
		default:
		}
	}
	if err := <-sent; err != nil {
		return err
	}
	return p.prompt(fmt.Sprintf("a control reply beside %d pages", p.Knobs.Pages), spans)
}
