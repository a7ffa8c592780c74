package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"microvms/agentd/api"
	"microvms/agentd/internal/archive"
	"microvms/agentd/internal/files"
	"microvms/agentd/trace"
)

func (s *Server) archiveOptions(r *request) archive.Options {
	return archive.Options{
		Reserve: s.disk, Gate: s.config.Gate, Recorder: s.config.Recorder, Request: r.serial,
		Limits: archive.Limits{Members: s.limits.MaxTarMembers, Bytes: s.limits.MaxTarBytes},
	}
}

// working returns the context of work on files: it ends with the daemon, and,
// for a download, with its client.
func (s *Server) working(r *request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(s.base)
	stop := context.AfterFunc(r.Context(), cancel)
	return ctx, func() { stop(); cancel() }
}

// tarGet serves GET /v1/fs/tar. The archive goes to an unlinked spool first, so
// that a tree that cannot be packed is a status and not a body cut short.
func (s *Server) tarGet(a *answer, r *request) {
	path, err := parsePath(r.URL.RawQuery)
	if err != nil {
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	}
	spool, err := archive.NewSpool(archive.SpoolFolder())
	if err != nil {
		s.refuseFile(a, r, err)
		return
	}
	defer spool.Close()
	ctx, done := s.working(r)
	defer done()
	size, err := archive.Pack(ctx, path, spool, s.archiveOptions(r))
	if err != nil {
		if ctx.Err() != nil {
			panic(http.ErrAbortHandler) // nobody is there to be told
		}
		s.refuseFile(a, r, err)
		return
	}
	if _, err := spool.Seek(0, 0); err != nil {
		s.refuseFile(a, r, fmt.Errorf("cannot read the spool: %w", err))
		return
	}
	a.Header().Set("Content-Type", api.MediaTar)
	s.sendWhole(a, r, spool, size)
}

// tarPut serves PUT /v1/fs/tar: the body goes to an unlinked spool and from
// there, once every header is judged, below the root that the path names.
func (s *Server) tarPut(a *answer, r *request) {
	path, err := parsePath(r.URL.RawQuery)
	if err == nil && !filepath.IsAbs(path) {
		err = fmt.Errorf("path must be absolute")
	}
	if err != nil {
		a.text(http.StatusBadRequest, err.Error()+"\n")
		return
	}
	// FS-10: the root's disk before the body is taken, and again for what the
	// members declare.
	claim, err := s.disk.Claim(path, 0)
	if err != nil {
		s.refuseFile(a, r, err)
		return
	}
	claim.Release()
	spool, size, err := s.spool(r)
	if err != nil {
		s.refuseFile(a, r, err)
		return
	}
	defer spool.Close()
	// A client that leaves now has sent all: the members are placed without it.
	if err := archive.Extract(s.base, spool, size, path, s.archiveOptions(r)); err != nil {
		s.refuseFile(a, r, err)
		return
	}
	a.WriteHeader(http.StatusNoContent)
}

// spool takes the body to disk. It never sits in memory, whatever its size.
func (s *Server) spool(r *request) (_ *os.File, size int64, err error) {
	folder := archive.SpoolFolder()
	claim, err := s.disk.Claim(folder, uint64(max(r.body.declared, 0)))
	if err != nil {
		return nil, 0, err
	}
	defer claim.Release()
	spool, err := archive.NewSpool(folder)
	if err != nil {
		return nil, 0, err
	}
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	if err = files.Copy(spool, r.body.stream(s.limits.MaxBodyBytes, s.limits.BodyStallTimeout), claim, *buf); err == nil {
		size, err = spool.Seek(0, 1)
	}
	if err != nil {
		_ = spool.Close()
		return nil, 0, err
	}
	s.pass(r.point(trace.ArchiveSpool))
	s.record(r.point(trace.ArchiveSpool))
	return spool, size, nil
}
