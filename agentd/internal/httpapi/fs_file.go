package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

func (r *request) point(action trace.Action) trace.Point {
	return trace.Point{Action: action, Request: r.serial}
}

// fileGet serves GET /v1/fs/file: a whole file, or a window of its lines.
func (s *Server) fileGet(a *answer, r *request) {
	path, window, err := parseRead(r.URL.RawQuery)
	if err != nil {
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	}
	s.pass(r.point(trace.FileOpen))
	src, err := files.Open(path)
	s.record(r.point(trace.FileOpen), trace.Attr{Key: "opened", Value: err == nil})
	switch {
	case errors.Is(err, files.ErrIsFolder):
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	case errors.Is(err, unix.ENOENT):
		// FS-2: only what is absent. A file in the place of a folder is ENOTDIR.
		a.text(http.StatusNotFound, err.Error()+"\n")
		return
	case err != nil:
		s.refuseFile(a, r, err)
		return
	}
	defer src.Close()
	defer src.Until(r.Context())()
	a.Header().Set("Content-Type", api.MediaBytes)
	// FS-1: without bounds the bytes go out untouched, counted or not.
	if window.Whole() {
		s.sendWhole(a, r, src.File, src.Size)
		return
	}
	a.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	// FS-3: cut out while it is read, because a file of any size has lines.
	if err := files.CopyLines(a, src, window, *buf); err != nil {
		panic(http.ErrAbortHandler) // a body that lacks its end must not look complete
	}
}

// sendWhole sends a file. One of known size goes out by sendfile under its
// length; should it shrink meanwhile, the connection is cut. One whose end shows
// only in reading goes out in chunks.
func (s *Server) sendWhole(a *answer, r *request, f *os.File, size int64) {
	if size >= 0 {
		a.Header().Set("Content-Length", strconv.FormatInt(size, 10))
	}
	a.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return
	}
	var err error
	if size >= 0 {
		var n int64
		if n, err = io.Copy(a.ResponseWriter, &io.LimitedReader{R: f, N: size}); err == nil && n < size {
			err = io.ErrUnexpectedEOF
		}
	} else {
		buf := copyBuffers.Get().(*[]byte)
		defer copyBuffers.Put(buf)
		_, err = io.CopyBuffer(struct{ io.Writer }{a}, struct{ io.Reader }{f}, *buf)
	}
	if err != nil {
		s.log.Debug("download cut", "request", r.serial, "err", err)
		panic(http.ErrAbortHandler)
	}
}

// filePut serves PUT /v1/fs/file: query, mode, disk, parents, open, in this
// order, before the first byte of the body is read.
//
// FS-7: a refused mode comes before the parents, because it must leave nothing.
func (s *Server) filePut(a *answer, r *request) {
	path, mode, err := parseWrite(r.URL.RawQuery)
	if err != nil {
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	}
	s.pass(r.point(trace.FileReserve))
	claim, err := s.disk.Claim(path, uint64(max(r.body.declared, 0)))
	s.record(r.point(trace.FileReserve), trace.Attr{Key: "enough", Value: err == nil})
	if err != nil {
		s.refuseFile(a, r, err)
		return
	}
	defer claim.Release()
	s.pass(r.point(trace.FileOpen))
	dst, err := files.Create(path, mode)
	s.record(r.point(trace.FileOpen), trace.Attr{Key: "opened", Value: err == nil})
	if err != nil {
		s.refuseFile(a, r, err)
		return
	}
	if err := s.fill(r, dst, claim); err != nil {
		s.refuseFile(a, r, err)
		return
	}
	a.WriteHeader(http.StatusNoContent)
}

// fill writes the body into dst and finishes it. After an error nothing of the
// file is left (FS-9).
func (s *Server) fill(r *request, dst *files.Destination, claim *files.Claim) (err error) {
	finished := false
	defer func() {
		if !finished { // a panic at a gate included
			_ = dst.Discard() // the error that matters is the first
			s.record(r.point(trace.FileDelete))
		}
	}()
	defer dst.Until(r.Context())()
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	body := r.body.stream(s.limits.MaxBodyBytes, s.limits.BodyStallTimeout)
	if err = files.Copy(dst, body, claim, *buf); err != nil {
		var write *files.WriteError
		if errors.As(err, &write) && (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) {
			err = claim.Full() // it filled up between two looks
		}
		s.pass(r.point(trace.FileDelete))
		return err
	}
	s.pass(r.point(trace.FileWrite))
	finished = true
	err = dst.Finish()
	s.record(r.point(trace.FileWrite))
	return err
}
