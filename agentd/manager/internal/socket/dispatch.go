package socket

import (
	"context"
	"errors"
	"fmt"

	"microvms/agentd/api/msp"
	"microvms/agentd/manager/internal/runs"
)

// judge holds one message to the rules of manager facts, section 2.3, in their
// order, and serves the request that is left. Rule 1 is the guard's.
func (c *conn) judge(text bool, message []byte) {
	if text {
		c.fail(0, msp.CodeMalformedFrame, "messages are binary: this one is text") // SOCKET-7: the connection stays
		return
	}
	h, payload, err := msp.ParseHeader(message)
	if err != nil {
		// SOCKET-8: even the bytes of an id that are there are not read as one.
		c.fail(0, msp.CodeMalformedFrame, fmt.Sprintf("a message has a header of %d bytes: this one has %d", msp.HeaderBytes, len(message)))
		return
	}
	switch {
	case !h.Method.Known():
		// SOCKET-9: before the id is judged, so that id 0 comes back as well.
		c.fail(h.Request, msp.CodeUnknownMethod, fmt.Sprintf("there is no method %d", uint16(h.Method)))
	case h.Request == 0:
		// SOCKET-10: also for the methods that clients never send.
		c.fail(0, msp.CodeBadRequestID, "request id 0 is the manager's own: use another")
	case !h.Method.Request():
		// SOCKET-11: in the table, but not for clients.
		c.fail(h.Request, msp.CodeUnknownMethod, fmt.Sprintf("clients do not send %v", h.Method))
	default:
		r, err := msp.ParseRequest(h.Method, payload)
		if err != nil {
			// SOCKET-15, SOCKET-30: the codec's words name keys and places, no values.
			c.fail(h.Request, msp.CodeMalformedFrame, err.Error())
			return
		}
		c.request(h, r)
	}
}

// request serves one request. SOCKET-19: each way through it sends one reply or
// one error.
func (c *conn) request(h msp.Header, r *msp.Request) {
	c.asked++
	ctx := runs.WithOrigin(c.server.base, c.serial, c.asked)
	var err error
	switch {
	case r.Run != nil:
		err = c.startRun(ctx, h, r.Run)
	case r.Attach != nil:
		err = c.attach(ctx, h, r.Attach)
	case r.Cancel != nil:
		if err = c.server.config.Table.Cancel(ctx, runs.ID(r.Cancel.GenvmID)); err == nil {
			c.reply(h, msp.Empty{})
		}
	case r.Ack != nil:
		if err = c.server.config.Table.Ack(ctx, runs.ID(r.Ack.GenvmID)); err == nil {
			c.reply(h, msp.Empty{})
		}
	case r.GetArtifact != nil:
		err = c.page(ctx, h, r.GetArtifact)
	}
	if err != nil {
		// SOCKET-25: on control, the errors of artifact requests too.
		code, text := said(err)
		c.fail(h.Request, code, text)
	}
}

// said is the code and the text of an error of the table.
func said(err error) (msp.ErrorCode, string) {
	switch {
	case errors.Is(err, runs.ErrUnknown):
		return msp.CodeUnknownID, "unknown_id" // the texts of manager facts, section 2.6
	case errors.Is(err, runs.ErrNotFinished):
		return msp.CodeNotFinished, "run has not finished"
	case errors.Is(err, runs.ErrField):
		return msp.CodeMalformedFrame, err.Error()
	case errors.Is(err, errBootID):
		return msp.CodeBootIDMismatch, err.Error()
	}
	return msp.CodeInternal, err.Error()
}

var errBootID = errors.New("the boot id names another process: its runs are gone")

// startRun accepts a run. Its reply is queued under the table's lock, ahead of
// the run's first event.
func (c *conn) startRun(ctx context.Context, h msp.Header, r *msp.RunRequest) error {
	spec, err := c.server.config.Spec(r)
	if err != nil {
		return err
	}
	return c.server.config.Table.Run(ctx, spec, c, func(id runs.ID) {
		// SOCKET-13: nothing of this run can be queued before.
		c.reply(h, msp.RunReply{GenvmID: uint64(id)})
	})
}

// attach queues the snapshot as the reply, ahead of each newer event.
func (c *conn) attach(ctx context.Context, h msp.Header, r *msp.Attach) error {
	if r.BootID != c.server.config.BootID {
		return errBootID // MGR-18: before the id, which means nothing in this process
	}
	return c.server.config.Table.Attach(ctx, runs.ID(r.GenvmID), c, func(ev runs.Event) {
		c.queue.add(item{event: &ev, request: h.Request, asked: c.asked})
	})
}

// page sends a page of an artifact on the queue of its own.
func (c *conn) page(ctx context.Context, h msp.Header, r *msp.GetArtifact) error {
	// SOCKET-23: before the page is read, so that nine pages never wait.
	if !c.queue.waitArtifact() {
		return nil // the connection ends: nobody waits for the answer
	}
	total, data, err := c.server.config.Table.Artifact(ctx, runs.ID(r.GenvmID), runs.Field(r.Field), r.Offset, min(r.MaxLen, msp.ChunkBytes))
	if err != nil {
		return err
	}
	frame, err := msp.Message(h, msp.ArtifactReply{TotalLen: total, Data: data})
	if err != nil {
		return err
	}
	c.queue.addArtifact(frame)
	return nil
}

// reply queues a reply, which repeats the header of its request.
func (c *conn) reply(h msp.Header, payload any) {
	frame, err := msp.Message(h, payload)
	if err != nil {
		c.fail(h.Request, msp.CodeInternal, err.Error())
		return
	}
	c.queue.add(item{frame: frame})
}

// fail queues an error reply.
func (c *conn) fail(request uint64, code msp.ErrorCode, text string) {
	frame, err := msp.Message(msp.Header{Method: msp.MethodError, Request: request}, &msp.Error{Code: code, Message: text})
	if err != nil {
		// Only a text that is no UTF-8 does not encode: an error's text may quote a path.
		frame, _ = msp.Message(msp.Header{Method: msp.MethodError, Request: request}, &msp.Error{Code: code, Message: code.String()})
	}
	c.queue.add(item{frame: frame})
}
