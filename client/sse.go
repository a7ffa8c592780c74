package client

import (
	"bytes"
	"io"
)

// maxFrameBytes bounds the bytes of a frame that has not ended yet.
const maxFrameBytes = 4 << 20

// frame is one event of an event stream: its name, and its data lines joined
// by newlines.
type frame struct {
	event string
	data  []byte
}

// frameReader splits an event stream into frames. A line ends at CR LF, LF or
// CR, a frame at an empty line; so every mixture of the three ends a frame, and
// wherever the bytes are split the frames are the same. Frames without data are
// dropped, as is what follows the last empty line.
type frameReader struct {
	src   io.Reader
	limit int
	block []byte // read buffer
	rest  []byte // unread part of block
	lf    int    // index of the next LF in rest, lfNone, or lfUnknown
	line  []byte // the line being collected, when it spans blocks
	// lastCR: the previous byte ended a line as CR, so a LF belongs to it.
	lastCR  bool
	held    int // bytes since the last frame ended, terminators included
	pending frame
	hasData bool
	err     error // sticky: once failed, a stream stays failed
}

const (
	lfNone    = -1
	lfUnknown = -2
)

func newFrameReader(src io.Reader, limit int) *frameReader {
	return &frameReader{src: src, limit: limit, block: make([]byte, 32<<10)}
}

// next returns the next frame that has data. The data belongs to the caller. At
// the end of the stream the error is that of the source (io.EOF, or what broke).
func (r *frameReader) next() (frame, error) {
	for {
		if f, ok := r.scan(); ok {
			return f, nil
		}
		if r.err != nil {
			return frame{}, r.err
		}
		n, err := r.src.Read(r.block)
		r.rest, r.lf, r.err = r.block[:n], lfUnknown, err
	}
}

// scan consumes r.rest up to the end of the next frame with data.
func (r *frameReader) scan() (frame, bool) {
	for len(r.rest) > 0 {
		if r.lastCR {
			r.lastCR = false
			if r.rest[0] == '\n' {
				r.consume(1)
				continue
			}
		}
		end := r.lineEnd()
		part := r.rest
		if end >= 0 {
			part = r.rest[:end+1]
		}
		// BIND-22: judged before the bytes are kept, because a peer that never
		// ends a frame must not make the client hold more than the limit.
		if r.held += len(part); r.held > r.limit {
			r.fail(protocolError("cannot read the event stream: over %d bytes without the end of a frame", r.limit))
			return frame{}, false
		}
		r.consume(len(part))
		if end < 0 {
			r.line = append(r.line, part...)
			continue
		}
		r.lastCR = part[end] == '\r'
		line := part[:end]
		if len(r.line) > 0 {
			r.line = append(r.line, line...)
			line = r.line
		}
		f, ok := r.endLine(line)
		r.line = r.line[:0]
		if ok {
			return f, true
		}
	}
	return frame{}, false
}

// lineEnd is the index of the next CR or LF in rest, or -1. The place of the
// next LF is remembered, so that a stream of bare CRs costs one search a block
// and not one a line.
func (r *frameReader) lineEnd() int {
	if r.lf == lfUnknown {
		r.lf = bytes.IndexByte(r.rest, '\n')
	}
	before := r.rest
	if r.lf >= 0 {
		before = r.rest[:r.lf]
	}
	if cr := bytes.IndexByte(before, '\r'); cr >= 0 {
		return cr
	}
	return r.lf
}

// consume drops the first n bytes of rest.
func (r *frameReader) consume(n int) {
	r.rest = r.rest[n:]
	if r.lf >= 0 {
		if r.lf -= n; r.lf < 0 {
			r.lf = lfUnknown
		}
	}
}

// endLine takes one complete line; an empty one ends the frame.
func (r *frameReader) endLine(line []byte) (frame, bool) {
	if len(line) == 0 {
		f, ok := r.pending, r.hasData
		r.pending, r.hasData, r.held = frame{}, false, 0
		return f, ok
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) { // a comment line has an empty name and is ignored
	case "event":
		r.pending.event = string(value)
	case "data":
		if r.hasData {
			r.pending.data = append(r.pending.data, '\n')
		}
		r.pending.data = append(r.pending.data, value...)
		r.hasData = true
	}
	return frame{}, false
}

func (r *frameReader) fail(err error) {
	r.err, r.rest, r.line, r.pending = err, nil, nil, frame{}
	r.hasData = false
}
