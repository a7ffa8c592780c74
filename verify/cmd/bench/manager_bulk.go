package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	bulkBytes  = 4 << 20   // of the artifact: all that the debug mode keeps
	pageBytes  = 256 << 10 // of a page, the protocol's most
	bulkEnds   = 20        // runs that end while pages wait
	leastAsked = 100       // control requests of a round
)

// beside has a connection ask for many pages and read them as they come, while
// another one asks for what is answered at once, and ends runs of which the first
// one hears.
func (b *managerBench) beside(ctx context.Context, r *round) error {
	bulk, err := dialManager(ctx, b.manager.addr)
	if err != nil {
		return err
	}
	defer bulk.close()
	control, err := dialManager(ctx, b.manager.addr)
	if err != nil {
		return err
	}
	defer control.close()
	artifact, err := bulk.run(ctx, runPayload("bulk"))
	if err != nil {
		return err
	}
	waiting, err := bulk.startAll(ctx, "wait", bulkEnds)
	if err != nil {
		return err
	}
	var replies, endings []float64
	others, err := r.span(func() error {
		replies, endings, err = ask(ctx, bulk, control, artifact, waiting, b.w.size.pages)
		return err
	})
	if err != nil {
		return err
	}
	for _, id := range append(waiting, artifact) {
		if err := control.ack(ctx, id); err != nil {
			return err
		}
		if _, err := control.next(ctx, methodAck); err != nil {
			return err
		}
	}
	p99 := percentile(replies, 0.99) // which sorts
	r.add(besideName, replies[len(replies)-1]*1e3, 0, others)
	r.add(besideP99, p99*1e3, 0, others)
	r.add(aheadName, percentile(endings, 1)*1e3, 0, others)
	return nil
}

// startAll starts runs and returns when their processes are there.
func (c *managerConn) startAll(ctx context.Context, executor string, n int) (ids []uint64, err error) {
	for range n {
		if err := c.send(ctx, methodRun, runPayload(executor)); err != nil {
			return nil, err
		}
	}
	for started := 0; len(ids) < n || started < n; {
		method, payload, err := c.read(ctx)
		switch {
		case err != nil:
			return nil, err
		case method == methodRun:
			id, err := runID(payload)
			if err != nil {
				return nil, err
			}
			ids = append(ids, id)
		case method == methodEvent && begins(payload, "started"):
			started++
		default:
			return nil, fmt.Errorf("message %d came at the start: %.200q", method, payload)
		}
	}
	return ids, nil
}

// ask measures replies on one connection and endings on the other, in seconds.
func ask(ctx context.Context, bulk, control *managerConn, artifact uint64, waiting []uint64, pages int) (replies, endings []float64, err error) {
	sent, read := make(chan error, 1), make(chan error, 1)
	ended := make(chan time.Time, len(waiting))
	go func() {
		for i := range pages {
			offset := uint64(i) * pageBytes % bulkBytes
			if err := bulk.send(ctx, methodArtifact, pagePayload(artifact, offset, pageBytes)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	go func() { read <- bulk.readPages(ctx, pages, len(waiting), ended) }()
	for i := 0; ; i++ {
		t := time.Now()
		if err = control.send(ctx, methodCancel, targetPayload("cancel", 1<<40)); err == nil {
			_, err = control.next(ctx, methodError) // there is no such run
		}
		if err != nil {
			break
		}
		replies = append(replies, time.Since(t).Seconds())
		if len(endings) < len(waiting) {
			span, err := control.endOne(ctx, waiting[len(endings)], ended)
			if err != nil {
				return nil, nil, err
			}
			endings = append(endings, span)
			continue
		}
		if len(read) > 0 && i >= leastAsked {
			break
		}
	}
	if err != nil {
		bulk.close()
	}
	return replies, endings, errors.Join(err, <-sent, <-read)
}

// readPages reads pages and tells when an ending came between them.
func (c *managerConn) readPages(ctx context.Context, pages, endings int, ended chan<- time.Time) error {
	for pages > 0 || endings > 0 {
		method, payload, err := c.read(ctx)
		switch {
		case err != nil:
			return err
		case method == methodArtifact && len(payload) > pageBytes:
			pages--
		case method == methodEvent && begins(payload, "finished"):
			endings--
			ended <- time.Now()
		default:
			return fmt.Errorf("message %d came among the pages: %.200q", method, payload)
		}
	}
	return nil
}

// endOne cancels a run and returns how long it took until the other connection
// heard of its end.
func (c *managerConn) endOne(ctx context.Context, run uint64, ended <-chan time.Time) (float64, error) {
	t := time.Now()
	if err := c.send(ctx, methodCancel, targetPayload("cancel", run)); err != nil {
		return 0, err
	}
	if _, err := c.next(ctx, methodCancel); err != nil {
		return 0, err
	}
	select {
	case at := <-ended:
		return at.Sub(t).Seconds(), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
