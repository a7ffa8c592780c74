package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"
)

// bodyPiece is how much of a control body has one read deadline.
const bodyPiece = 64 << 10

// Errors of reading a request body.
var (
	errBodyTooLarge = errors.New("request body is too large")
	errBodyTimeout  = errors.New("request body did not arrive in time")
)

// body is a request's body with what the end of the request must know of it.
type body struct {
	io.ReadCloser
	conn     *conn
	declared int64 // Content-Length, -1 for chunked
	expects  bool  // the client waits for a 100 before it sends
	touched  bool
	eof      bool
	closing  bool   // the connection ends with this request
	whole    func() // called when read has the whole body and before it says so
}

func newBody(r *http.Request) *body {
	return &body{
		ReadCloser: r.Body, conn: connOf(r), declared: r.ContentLength,
		expects: strings.EqualFold(r.Header.Get("Expect"), "100-continue"),
		eof:     r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0,
		whole:   func() {},
	}
}

// Read reads and notes the end.
func (b *body) Read(p []byte) (int, error) {
	b.touched = true
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.eof = true
	}
	return n, err
}

// remains reports whether the client may have body bytes left to send.
func (b *body) remains() bool { return !b.eof }

// read returns the whole body. It fails with errBodyTooLarge above limit bytes,
// without reading when the declared length tells, and with errBodyTimeout when
// the deadline passes: within, for the whole body, or stall, for each piece of
// it. After an error the connection ends with the request. On a connection that
// makes room for a newcomer meanwhile it ends the request without an answer.
func (b *body) read(limit int64, within, stall time.Duration) ([]byte, error) {
	if b.eof {
		return nil, nil // nothing is waited for
	}
	waits := awaitingHook
	if stall > 0 {
		waits = awaitingBody
	}
	// XPORT-31: only while it reads: once the body is here, the request has its effect.
	leave := b.conn.enter(waits)
	data, err := b.readAll(limit, within, stall)
	if err == nil {
		b.whole()
	}
	if !leave() {
		// XPORT-31: it made room, so its answer is lost: it must have no effect either.
		panic(http.ErrAbortHandler)
	}
	if err != nil {
		b.closing = true
		return nil, err
	}
	b.conn.SetReadDeadline(time.Time{})
	return data, nil
}

func (b *body) readAll(limit int64, within, stall time.Duration) ([]byte, error) {
	if b.declared > limit {
		return nil, errBodyTooLarge
	}
	// The buffer grows with what arrives, never with what is promised.
	data := make([]byte, 0, min(max(b.declared, 0)+1, bodyPiece))
	b.conn.SetReadDeadline(time.Now().Add(max(within, stall)))
	renew := bodyPiece
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := b.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limit:
			return nil, errBodyTooLarge
		case err == io.EOF:
			return data, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errBodyTimeout
		case err != nil:
			return nil, err
		}
		// XPORT-21: each 64 KiB renew the deadline, so that a slow body that moves is let through.
		if stall > 0 && len(data) >= renew {
			b.conn.SetReadDeadline(time.Now().Add(stall))
			renew = len(data) + bodyPiece
		}
	}
}

// settle decides, after the answer, what becomes of the connection: a rest of
// the body within the bounds of bytes and time is drained and the connection
// kept; hitting either bound closes it.
func (s *Server) settle(a *answer, r *http.Request) {
	b := a.body
	if !b.remains() {
		return
	}
	// The answer goes out first: net/http would read up to 256 KiB of the body
	// before it, without a deadline.
	_ = http.NewResponseController(a.ResponseWriter).Flush()
	if b.closing || (b.expects && !b.touched) {
		// XPORT-15: a client that expects a 100 is never read from: a read would send it.
		b.conn.linger.Store(true)
		b.conn.SetReadDeadline(time.Unix(1, 0))
		return
	}
	b.conn.SetReadDeadline(time.Now().Add(s.limits.DrainTimeout))
	leave := b.conn.enter(draining)
	defer leave()
	// XPORT-7: bounded in time and in bytes, so that a refusal stays cheap.
	n, _ := io.Copy(io.Discard, io.LimitReader(b, s.limits.MaxDrainBytes))
	if b.eof && n < s.limits.MaxDrainBytes {
		b.conn.SetReadDeadline(time.Time{})
		return
	}
	// XPORT-17: bytes left unread would be parsed as the next request.
	b.conn.linger.Store(true)
	b.conn.Close()
}

// isJSON reports whether the content type is application/json or has the +json
// suffix.
func isJSON(h http.Header) bool {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	top, sub, _ := strings.Cut(mediaType, "/")
	// XPORT-22: with any parameters, and nothing that only looks like it.
	return top == "application" && (sub == "json" || strings.HasSuffix(sub, "+json"))
}
