package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"

	"microvms/agentd/api"
)

// PutFileOptions are how a file is written.
type PutFileOptions struct {
	// Mode is the file's mode, setuid, setgid and sticky bits included; 0 lets
	// the daemon choose 0644.
	Mode fs.FileMode
	// Size is the number of bytes that src will give. 0: taken from src where it
	// can tell, otherwise unknown. A known size lets a full disk refuse early.
	Size int64
}

// PutFile writes src to a file of the VM, in place, and makes the folders that
// are missing. The path may be any; a relative one starts at the daemon's own
// folder. It never repeats a request, since src can be read only once, and reads
// src no more once it has returned.
func (s *Session) PutFile(ctx context.Context, path string, src io.Reader, opts PutFileOptions) error {
	query := url.Values{"path": {path}}
	if opts.Mode != 0 {
		query.Set("mode", strconv.FormatUint(uint64(octalMode(opts.Mode)), 8))
	}
	return s.upload(ctx, api.PathFile, path, query, src, opts.Size, api.MediaBytes)
}

// octalMode is a mode as the kernel counts it.
func octalMode(m fs.FileMode) uint32 {
	bits := uint32(m.Perm())
	if m&fs.ModeSetuid != 0 {
		bits |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		bits |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		bits |= 0o1000
	}
	return bits
}

// Lines is a range of lines, 1-based, both ends included. The zero value is the
// whole file.
type Lines struct {
	First uint64 // 0: 1
	Last  uint64 // 0: the last line
}

// GetFile opens a file of the VM for reading, or a range of its lines. The
// caller closes the stream; until then it holds one of the daemon's connections.
// A stream that is cut ends with an error and never with io.EOF. An absent file
// matches ErrNotFound. The stream has a method Size() int64, the bytes that the
// daemon has announced, -1 where it has not.
func (s *Session) GetFile(ctx context.Context, path string, lines Lines) (io.ReadCloser, error) {
	if lines.Last != 0 && lines.Last < max(lines.First, 1) {
		return nil, invalidArg("lines %d to %d: the last is before the first", lines.First, lines.Last)
	}
	query := url.Values{"path": {path}}
	if lines.First != 0 {
		query.Set("start_line", strconv.FormatUint(lines.First, 10))
	}
	if lines.Last != 0 {
		query.Set("end_line", strconv.FormatUint(lines.Last, 10))
	}
	return s.download(ctx, api.PathFile, path, query)
}

// PutTar extracts src, an uncompressed tar, below a folder of the VM, which must
// be absolute and is made when it is missing. Members that break the daemon's
// rules of confinement are refused before anything is placed; what the VM's
// kernel refuses later leaves the members before it.
func (s *Session) PutTar(ctx context.Context, folder string, src io.Reader) error {
	if !strings.HasPrefix(folder, "/") {
		return invalidArg("folder %q: must be absolute", folder)
	}
	return s.upload(ctx, api.PathTar, folder, url.Values{"path": {folder}}, src, 0, api.MediaTar)
}

// GetTar opens a folder of the VM as an uncompressed tar: the folder itself as
// "./", the rest relative to it, symbolic links as links. The stream is the
// caller's as that of GetFile.
func (s *Session) GetTar(ctx context.Context, folder string) (io.ReadCloser, error) {
	return s.download(ctx, api.PathTar, folder, url.Values{"path": {folder}})
}

// fileRequest builds a request of a file route. The route stands in errors, and
// the query not: names of files are the caller's.
func (s *Session) fileRequest(ctx context.Context, c call, path string, query url.Values, body io.Reader) (*http.Request, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return nil, invalidArg("path %q: must not be empty or hold a NUL byte", path)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, s.Endpoint()+c.path+"?"+query.Encode(), body)
	if err != nil {
		return nil, invalidArg("cannot build the request of %s %s", c.method, c.path)
	}
	if err := s.authorize(ctx, req.Header); err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "microvm-client")
	req.Header.Set("Authorization", "Bearer "+s.token.value)
	return req, nil
}

// upload sends src as a body. The idle timeout bounds the silence on the wire,
// from byte to byte and before the answer.
func (s *Session) upload(ctx context.Context, route, path string, query url.Values, src io.Reader, size int64, media string) error {
	c := call{method: http.MethodPut, path: route}
	callCtx, done, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	reqCtx, cancel := context.WithCancelCause(callCtx)
	defer cancel(context.Canceled)
	idle := s.clock.AfterFunc(s.idleTimeout, func() { cancel(errDeadline) })
	defer idle.Stop()
	if size == 0 {
		size = sizeOf(src)
	}
	body := &source{src: src, renew: func() { idle.Reset(s.idleTimeout) }, closed: make(chan struct{})}
	req, err := s.fileRequest(reqCtx, c, path, query, body)
	if err != nil {
		return s.silence(ctx, reqCtx, c, err)
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", media)
	if size == 0 {
		req.Body = http.NoBody
		_ = body.Close()
	} else {
		req.Body = body
	}
	resp, err := s.transport.RoundTrip(req)
	var refused error
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			refused = s.refusal(c, resp) // read now: nothing more comes once the request is cancelled
		}
	}
	// CLIENT-32: the transport closes the body when it reads no more of it, and may
	// answer before that; src is the caller's again only afterwards.
	if err != nil || resp.StatusCode != http.StatusNoContent {
		cancel(context.Canceled)
	}
	<-body.closed
	switch {
	// Before any answer: one that says that the body broke off is no news.
	case body.failed != nil && ctx.Err() == nil:
		return &Error{Kind: KindPrecondition, Message: "cannot read what is to be sent", Err: body.failed}
	case body.failed != nil:
		return s.silence(ctx, reqCtx, c, body.failed)
	case err != nil:
		return s.silence(ctx, reqCtx, c, err)
	}
	return refused
}

// silence names why a transfer broke off.
func (s *Session) silence(caller, ctx context.Context, c call, err error) error {
	if errors.Is(context.Cause(ctx), errDeadline) && caller.Err() == nil && s.closing.Err() == nil {
		return &Error{Kind: KindRetryable, Wire: WireTransport, Message: fmt.Sprintf("%s %s was silent for %s", c.method, c.path, s.idleTimeout)}
	}
	return s.failure(caller, ctx, c, err)
}

// source is the body of an upload.
type source struct {
	src    io.Reader
	renew  func()
	closed chan struct{}
	once   sync.Once
	failed error // of src; read after closed
}

func (b *source) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	b.renew()
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

// Close is called by the transport, whatever becomes of the request.
func (b *source) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

// sizeOf returns what src has left where it can tell, otherwise -1.
func sizeOf(src io.Reader) int64 {
	switch src := src.(type) {
	case interface{ Len() int }: // bytes.Buffer, bytes.Reader, strings.Reader
		return int64(src.Len())
	case *os.File:
		info, err := src.Stat()
		at, seekErr := src.Seek(0, io.SeekCurrent)
		if err == nil && seekErr == nil && info.Mode().IsRegular() && info.Size() > at {
			return info.Size() - at
		}
	}
	return -1
}

// download opens an answer as a stream.
func (s *Session) download(ctx context.Context, route, path string, query url.Values) (io.ReadCloser, error) {
	c := call{method: http.MethodGet, path: route}
	callCtx, done, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	reqCtx, cancel := context.WithCancelCause(callCtx)
	d := &transfer{session: s, call: c, caller: ctx, ctx: reqCtx, end: func() { cancel(context.Canceled); done() }}
	d.idle = s.clock.AfterFunc(s.idleTimeout, func() { cancel(errDeadline) })
	req, err := s.fileRequest(reqCtx, c, path, query, nil)
	if err != nil {
		err = s.silence(ctx, reqCtx, c, err)
		d.stop()
		return nil, err
	}
	resp, err := s.transport.RoundTrip(req) //nolint:bodyclose // transfer.Close closes it
	if err != nil {
		err = s.silence(ctx, reqCtx, c, err)
		d.stop()
		return nil, err
	}
	d.body, d.size = resp.Body, resp.ContentLength
	if resp.StatusCode != http.StatusOK {
		defer d.Close()
		return nil, s.refusal(c, resp)
	}
	d.idle.Stop() // the receiver's own time is not the daemon's silence
	return d, nil
}

// transfer is the body of a download. It belongs to one goroutine.
type transfer struct {
	session *Session
	call    call
	caller  context.Context
	ctx     context.Context
	end     func()
	idle    Timer
	body    io.ReadCloser
	size    int64
}

// Size is what the daemon has announced, or -1.
func (d *transfer) Size() int64 { return d.size }

// Read reads bytes of the file. Its errors are those of the session.
func (d *transfer) Read(p []byte) (int, error) {
	d.idle.Reset(d.session.idleTimeout)
	n, err := d.body.Read(p)
	d.idle.Stop()
	if err != nil && err != io.EOF {
		err = d.session.silence(d.caller, d.ctx, d.call, err)
	}
	return n, err
}

// Close ends the transfer, also in its middle.
func (d *transfer) Close() error {
	d.body.Close()
	d.stop()
	return nil
}

func (d *transfer) stop() {
	d.idle.Stop()
	d.end()
}
