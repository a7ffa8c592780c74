package microvmtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
)

// errBroken is what a client sees of an answer that breaks off.
var errBroken = errors.New("microvmtest: connection broken")

// Client returns an HTTP client whose requests reach the server over memory:
// no sockets, so it works inside a testing/synctest bubble. A handler that
// panics with http.ErrAbortHandler breaks the connection, as in net/http.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: memory{s}}
}

type memory struct{ handler http.Handler }

// RoundTrip runs the handler in its own goroutine and returns when it has
// written its header. Closing the body ends the handler's context.
func (m memory) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	r := req.Clone(ctx)
	r.RequestURI = r.URL.RequestURI()
	r.RemoteAddr = "127.0.0.1:1"
	body := &requestBody{ctx: ctx, src: r.Body}
	r.Body = body
	reader, writer := io.Pipe()
	w := &memoryWriter{header: make(http.Header), body: writer, ready: make(chan struct{})}
	broken := make(chan struct{})
	go func() {
		defer cancel()
		defer body.end()
		defer func() {
			if p := recover(); p != nil {
				if p != http.ErrAbortHandler { //nolint:errorlint // a panic value, by which net/http itself compares
					panic(p)
				}
				close(broken)
				writer.CloseWithError(errBroken)
			}
		}()
		m.handler.ServeHTTP(w, r)
		w.WriteHeader(http.StatusOK)
		writer.CloseWithError(req.Context().Err()) // nil: the whole answer
	}()
	context.AfterFunc(req.Context(), func() { reader.CloseWithError(req.Context().Err()) })
	select {
	case <-w.ready:
	case <-broken:
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	select {
	case <-w.ready: // also when it broke right after its header
	default:
		return nil, errBroken
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: &memoryBody{reader, cancel}, ContentLength: -1, Request: req,
	}, nil
}

// requestBody is what the handler reads. The client's own body is closed once,
// when the handler has ended, and never while it is read.
type requestBody struct {
	ctx context.Context
	src io.ReadCloser // may be nil
}

func (b *requestBody) Read(p []byte) (int, error) {
	switch {
	case b.ctx.Err() != nil:
		return 0, b.ctx.Err()
	case b.src == nil:
		return 0, io.EOF
	}
	return b.src.Read(p)
}

// Close is the handler's, and changes nothing.
func (b *requestBody) Close() error { return nil }

func (b *requestBody) end() {
	if b.src != nil {
		b.src.Close()
	}
}

type memoryBody struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (b *memoryBody) Close() error {
	b.cancel()
	return b.PipeReader.Close()
}

// memoryWriter is the handler's side of an exchange.
type memoryWriter struct {
	header http.Header
	body   *io.PipeWriter
	once   sync.Once
	status int
	sent   http.Header
	ready  chan struct{}
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) {
	w.once.Do(func() {
		w.status, w.sent = status, w.header.Clone()
		close(w.ready)
	})
}

func (w *memoryWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}

// Flush does nothing: every write is seen at once.
func (w *memoryWriter) Flush() {}
