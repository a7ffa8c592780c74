package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"microvms/client"
)

// watched is a source that notices a read after it was given back.
type watched struct {
	src      io.Reader
	returned atomic.Bool
	late     atomic.Bool
	reading  chan struct{} // closed at the first read
	release  chan struct{} // what reads wait for
}

func (w *watched) Read(p []byte) (int, error) {
	if w.returned.Load() {
		w.late.Store(true)
	}
	select {
	case <-w.reading:
	default:
		close(w.reading)
	}
	<-w.release
	n, err := w.src.Read(p)
	if w.returned.Load() {
		w.late.Store(true)
	}
	return n, err
}

// A source is the caller's again when the upload returns, also where the daemon
// has refused it while it was being read.
func TestUploadGivesItsSourceBack(t *testing.T) {
	t.Attr("requirement", "CLIENT-32")
	for range 20 {
		src := &watched{src: strings.NewReader(strings.Repeat("x", 1<<20)), reading: make(chan struct{}), release: make(chan struct{})}
		s := refusing(t, src.reading)
		go func() {
			<-src.reading
			close(src.release)
		}()
		err := s.PutFile(t.Context(), "/f", src, client.PutFileOptions{})
		src.returned.Store(true)
		if client.WireKindOf(err) != client.WireTooLarge && client.WireKindOf(err) != client.WireTransport {
			t.Errorf("%v", err)
		}
		s.Close()
		if src.late.Load() {
			t.Fatal("the source was read after the upload had returned")
		}
	}
}

// refusing is a session with a server that refuses an upload as soon as its
// source is being read.
func refusing(t *testing.T, reading <-chan struct{}) *client.Session {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-reading
		w.WriteHeader(http.StatusRequestEntityTooLarge)
	}))
	t.Cleanup(server.Close)
	s, err := client.New(server.URL, "token")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
