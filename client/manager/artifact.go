package manager

import (
	"context"
	"io"

	"microvms/agentd/api/msp"
	"microvms/client"
)

// ReadArtifact reads a page of an artifact of a run that has finished: at most
// most bytes from offset, and never more than msp.ChunkBytes. It gives the whole
// length of the artifact and the page, which is empty at or behind the end. On a
// run that has not finished, or has failed to start, it fails with ErrUnknownID.
func (c *Client) ReadArtifact(ctx context.Context, id RunID, field msp.Artifact, offset uint64, most uint32) (total uint64, page []byte, err error) {
	if err := c.ofThisBoot(id); err != nil {
		return 0, nil, err
	}
	var reply msp.ArtifactReply
	err = c.do(ctx, &msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: id.Number, Field: field, Offset: offset, MaxLen: most}}, &reply, nil)
	if err != nil {
		return 0, nil, err
	}
	if uint64(len(reply.Data)) > uint64(most) || uint64(len(reply.Data)) > reply.TotalLen-min(offset, reply.TotalLen) {
		return 0, nil, protocolError("a page of %q holds %d bytes: %d were asked for, of %d from %d", field, len(reply.Data), most, reply.TotalLen, offset)
	}
	return reply.TotalLen, reply.Data, nil
}

// pager reads pages; a Client and a Session do.
type pager interface {
	ReadArtifact(ctx context.Context, id RunID, field msp.Artifact, offset uint64, most uint32) (uint64, []byte, error)
}

// Artifact reads an artifact from the front, page by page. It implements
// io.Reader and io.WriterTo, and is not safe for concurrent use. A failed read
// may be repeated: it goes on where the last good page ended.
type Artifact struct {
	ctx   context.Context
	from  pager
	id    RunID
	field msp.Artifact

	total  uint64 // the whole length, once it is pinned
	pinned bool
	offset uint64 // of the next page
	rest   []byte // of the present page
	ended  bool
}

// Open reads an artifact of a run that has finished. Nothing is asked before the
// first read; ctx bounds all of them.
func (c *Client) Open(ctx context.Context, id RunID, field msp.Artifact) *Artifact {
	return &Artifact{ctx: ctx, from: c, id: id, field: field}
}

// fill reads the next page.
func (a *Artifact) fill() error {
	if a.ended {
		return io.EOF
	}
	total, page, err := a.from.ReadArtifact(a.ctx, a.id, a.field, a.offset, msp.ChunkBytes)
	if err != nil {
		return err
	}
	// MCLIENT-44: an artifact never changes, and one that grows would be read for ever.
	if a.pinned && total != a.total {
		return protocolError("%q has a length of %d bytes now, and had %d before: artifacts do not change", a.field, total, a.total)
	}
	a.total, a.pinned = total, true
	a.offset += uint64(len(page))
	a.rest, a.ended = page, a.offset >= total
	// MCLIENT-14: an empty page before the end will not fill by asking again.
	if len(page) == 0 && !a.ended {
		return &client.Error{Kind: client.KindPlatform, Err: &truncatedError{a.field, a.offset, total}}
	}
	if len(page) == 0 {
		return io.EOF
	}
	return nil
}

// Read reads from the artifact; at its end it gives io.EOF.
func (a *Artifact) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(a.rest) == 0 {
		if err := a.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// WriteTo writes the rest of the artifact to w.
func (a *Artifact) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for {
		if len(a.rest) == 0 {
			if err := a.fill(); err == io.EOF {
				return written, nil
			} else if err != nil {
				return written, err
			}
		}
		n, err := w.Write(a.rest)
		written += int64(n)
		a.rest = a.rest[n:]
		if err != nil {
			return written, err
		}
	}
}
