package histories

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Cut says where a client breaks off a request. What the daemon did is then
// unknown to that client, and the history must be judged without knowing.
type Cut uint8

const (
	// NoCut: the request is sent whole and its answer read whole.
	NoCut Cut = iota
	// CutBefore: the connection is closed before the request is whole. The daemon must not act on it.
	CutBefore
	// CutAfter: the request is sent whole and the connection closed at once: it may take effect at any later time.
	CutAfter
	// DropAnswer: the answer arrived and was thrown away: the operation had returned, with an outcome nobody knows.
	DropAnswer
)

// String returns the cut's name in saved histories.
func (c Cut) String() string {
	return [...]string{"whole", "cut before", "cut after", "answer dropped"}[c]
}

// answerLimit bounds how long a client waits for one answer. It is far above what any answer takes; a daemon that
// exceeds it has hung, and the run says so.
const answerLimit = 30 * time.Second

// wire is one client's connection to the daemon: HTTP/1.1 by hand, so that a request can be cut at a chosen byte. It
// is used by one goroutine.
type wire struct {
	addr string
	conn net.Conn
	in   *bufio.Reader
	buf  bytes.Buffer
}

// reply is an answer that was read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// errCut is returned for an answer that the client did not read.
var errCut = errors.New("the request was cut")

// errShort is returned for an answer that ended early, and the connection with it.
var errShort = errors.New("the answer ended early")

// send performs one request. With a cut other than NoCut it returns errCut.
func (w *wire) send(ctx context.Context, method, path, token string, body []byte, cut Cut) (*reply, error) {
	// A kept connection may be closed by the daemon between two requests (5 s without a request). A request that may
	// have reached the daemon is never sent twice, so a stale connection is found by a read that must not return.
	if w.conn != nil && w.stale() {
		w.close()
	}
	if err := w.dial(ctx); err != nil {
		return nil, err
	}
	head := w.encode(method, path, token, body)
	if cut == CutBefore {
		// Half the body, or half the head when there is no body.
		n := head + (w.buf.Len()-head)/2
		if len(body) == 0 {
			n = head / 2
		}
		_, err := w.conn.Write(w.buf.Bytes()[:n])
		w.close()
		return nil, errors.Join(errCut, err)
	}
	if _, err := w.conn.Write(w.buf.Bytes()); err != nil {
		w.close()
		return nil, fmt.Errorf("cannot send %s %s: %w", method, path, err)
	}
	if cut == CutAfter {
		w.close()
		return nil, errCut
	}
	r, err := w.read(method, path)
	if err != nil {
		w.close()
		return nil, err
	}
	if cut == DropAnswer {
		return nil, errCut
	}
	return r, nil
}

// encode puts the request into w.buf and returns the length of its head.
func (w *wire) encode(method, path, token string, body []byte) (head int) {
	w.buf.Reset()
	fmt.Fprintf(&w.buf, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, w.addr)
	if token != "" {
		fmt.Fprintf(&w.buf, "Authorization: Bearer %s\r\n", token)
	}
	if body != nil {
		w.buf.WriteString("Content-Type: application/json\r\n")
	}
	if method != http.MethodGet {
		w.buf.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	w.buf.WriteString("\r\n")
	head = w.buf.Len()
	w.buf.Write(body)
	return head
}

func (w *wire) read(method, path string) (*reply, error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(answerLimit)); err != nil {
		return nil, fmt.Errorf("cannot set a deadline: %w", err)
	}
	resp, err := http.ReadResponse(w.in, &http.Request{Method: method})
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.Join(errShort, err)
		}
		return nil, fmt.Errorf("cannot read the answer to %s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("cannot read the body of the answer to %s %s: %w", method, path, errors.Join(errShort, err))
	}
	if resp.Close {
		w.close()
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

func (w *wire) dial(ctx context.Context) error {
	if w.conn != nil {
		return nil
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp4", w.addr)
	if err != nil {
		return fmt.Errorf("cannot connect to the daemon at %q: %w", w.addr, err)
	}
	w.conn, w.in = conn, bufio.NewReader(conn)
	return nil
}

// stale reports whether the daemon closed the idle connection.
func (w *wire) stale() bool {
	if w.in.Buffered() > 0 || w.conn.SetReadDeadline(time.Now().Add(time.Microsecond)) != nil {
		return true
	}
	_, err := w.in.Peek(1)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		return true
	}
	// A bufio.Reader keeps its error: start a new one.
	w.in.Reset(w.conn)
	return false
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn, w.in = nil, nil
	}
}
