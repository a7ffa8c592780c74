package httpapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/internal/archive"
	"microvms/agentd/internal/files"
)

// errBodyCut is returned for a body whose connection ended before it did.
var errBodyCut = errors.New("request body was cut short")

// upload is a request body as a stream to disk: it holds the cap on the wire
// and gives each piece its own read deadline. After an error the connection
// ends with the request.
type upload struct {
	body  *body
	left  int64 // until the cap
	stall time.Duration
	until int64 // bytes until the deadline is renewed
}

// stream returns the body as an upload. Call done when it was read to its end.
func (b *body) stream(limit int64, stall time.Duration) *upload {
	return &upload{body: b, left: limit, stall: stall}
}

// Read reads body bytes. It fails with errBodyTooLarge as soon as one is above
// the cap, with errBodyTimeout when they stall, and with errBodyCut.
func (u *upload) Read(p []byte) (int, error) {
	if u.body.eof {
		return 0, io.EOF
	}
	if u.until <= 0 {
		u.body.conn.SetReadDeadline(time.Now().Add(u.stall))
		u.until = bodyPiece
	}
	// One byte beyond the cap is asked for, to tell a body of that size from a
	// larger one.
	if int64(len(p)) > u.left {
		p = p[:u.left+1]
	}
	n, err := u.body.Read(p)
	u.until -= int64(n)
	// FS-27: by what arrives, because chunks declare nothing.
	if u.left -= int64(n); u.left < 0 {
		u.body.closing = true
		return 0, errBodyTooLarge
	}
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		u.body.conn.SetReadDeadline(time.Time{})
		return n, io.EOF
	}
	u.body.closing = true
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return n, errBodyTimeout
	}
	return n, errBodyCut
}

// Buffers in which bodies and files are copied.
//
// FS-8: what is in one of them is all that is in memory of a body.
const copyBytes = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBytes); return &b }}

// refuseFile answers a request for files that failed. The bodies are plain text
// and name what the caller named, never what a file holds.
func (s *Server) refuseFile(a *answer, r *request, err error) {
	var (
		full    *files.FullError
		refusal *archive.Refusal
		write   *files.WriteError
	)
	status := http.StatusInternalServerError
	switch {
	case errors.Is(err, errBodyTooLarge):
		a.text(http.StatusRequestEntityTooLarge, s.tooLarge())
		return
	case errors.Is(err, errBodyTimeout):
		status = http.StatusRequestTimeout
	case errors.Is(err, errBodyCut):
		status = http.StatusBadRequest
	case errors.As(err, &full):
		// FS-10: 507 and not 500, which clients retry.
		status = http.StatusInsufficientStorage
	case errors.As(err, &refusal):
		if status = statusOf(refusal.Kind); status == http.StatusInternalServerError && refusal.Bytes {
			err = fmt.Errorf("%s%w", api.ArchiveRefused, err) // FS-28: told from a failure that may pass
		}
	case errors.As(err, &write), errors.Is(err, os.ErrNotExist):
	case s.base.Err() != nil:
		panic(http.ErrAbortHandler) // the daemon ended at a gate or between members
	}
	s.log.Warn("file request refused", "request", r.serial, "status", status)
	a.text(status, err.Error()+"\n")
}

func statusOf(k archive.Kind) int {
	switch k {
	case archive.Unsafe, archive.BadRoot:
		return http.StatusBadRequest
	case archive.TooMuch:
		return http.StatusRequestEntityTooLarge
	case archive.Absent:
		return http.StatusNotFound
	}
	return http.StatusInternalServerError
}
