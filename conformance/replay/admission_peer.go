package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"microvms/agentd/api"
	"microvms/model/admission"
)

// admissionPeer is the client's end of one connection, with what the daemon has
// of it.
type admissionPeer struct {
	conn   net.Conn
	read   *bufio.Reader
	socket *socket
	sent   int
	spared int     // how often the daemon had taken a question back when the step began
	parked *Parked // its handler, while a request is under way
	left   bool    // the client has closed
	sock   *Sockets
}

// dialAdmission connects and waits until the connection is accepted, which is
// before it is admitted.
func dialAdmission(ctx context.Context, d *AdmissionDaemon) (*admissionPeer, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", strings.TrimPrefix(d.URL, "http://"))
	if err != nil {
		return nil, err
	}
	p := &admissionPeer{conn: conn, read: bufio.NewReader(conn), sock: d.Sockets}
	// A port comes again, so the connection that had it before is told apart: it is closed.
	p.socket, err = d.Sockets.await(ctx, conn.LocalAddr().String(), func(k *socket) bool { return k != nil && !k.closed })
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("the connection is not accepted: %w", err)
	}
	return p, nil
}

func (p *admissionPeer) send(text string) error {
	n, err := io.WriteString(p.conn, text)
	p.sent += n
	return err
}

// arrive sends what the daemon does not get to read.
func (p *admissionPeer) arrive(ctx context.Context, text string) error {
	if err := p.socket.deafen(); err != nil {
		return err
	}
	if _, err := p.sock.await(ctx, p.conn.LocalAddr().String(), func(k *socket) bool { return k.parked }); err != nil {
		return fmt.Errorf("the daemon reads nothing: %w", err)
	}
	return p.send(text)
}

// until bounds what is read next by the step's deadline.
func (p *admissionPeer) until(ctx context.Context) {
	if t, ok := ctx.Deadline(); ok {
		p.conn.SetReadDeadline(t)
	} else {
		p.conn.SetReadDeadline(time.Time{})
	}
}

// expect reads one answer and compares its status, and whether it announces the
// end of the connection.
func (p *admissionPeer) expect(ctx context.Context, want admission.Status, ends bool) error {
	p.until(ctx)
	r, err := http.ReadResponse(p.read, nil)
	if err != nil {
		return fmt.Errorf("no answer, the model says %s: %w", want, err)
	}
	if r.StatusCode != statusCodes[want] {
		return fmt.Errorf("answered %d, the model says %s", r.StatusCode, want)
	}
	if r.Header.Get(api.HeaderVersion) == "" {
		return fmt.Errorf("the answer %d has no %s header", r.StatusCode, api.HeaderVersion)
	}
	if r.StatusCode == http.StatusSwitchingProtocols {
		if got := r.Header.Get("Connection"); !strings.EqualFold(got, "upgrade") {
			return fmt.Errorf("the upgrade is answered with Connection: %s", got)
		}
		return nil // what follows are frames
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err
	}
	if r.Close != ends {
		return fmt.Errorf("the answer %d announces the end: %v, the model says %v", r.StatusCode, r.Close, ends)
	}
	return r.Body.Close()
}

// end waits until the daemon has ended the connection, on both sides, and says
// nothing more on it.
func (p *admissionPeer) end(ctx context.Context) error {
	defer p.conn.Close()
	if !p.left {
		p.until(ctx)
		if b, err := p.read.ReadByte(); err == nil {
			return fmt.Errorf("a byte %q comes instead of the end", b)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		p.conn.Close() // a daemon that lingers waits for it
	}
	_, err := p.sock.await(ctx, p.conn.LocalAddr().String(), func(k *socket) bool { return k.closed })
	return err
}

// holds waits until the connection is admitted, the daemon holds the deadlines
// over it that it must have in the phase, and has taken what was sent.
func (p *admissionPeer) holds(ctx context.Context, phase admission.Phase) error {
	ready := func(k *socket) bool {
		if !k.admitted || k.closed || k.over || k.deadlines() != deadlinesIn[phase] {
			return false
		}
		switch phase {
		case admission.Arrived: // the daemon waits for a header, and what it waits for lies there
			return k.reading && k.taken < p.sent
		case admission.HookBody, admission.Uploading, admission.Draining:
			return k.reading && k.taken == p.sent
		}
		return k.taken == p.sent
	}
	if _, err := p.sock.await(ctx, p.conn.LocalAddr().String(), ready); err != nil {
		p.sock.mu.Lock()
		defer p.sock.mu.Unlock()
		return fmt.Errorf("admitted %v, closed %v, %s, %d of %d bytes taken; want %s: %w",
			p.socket.admitted, p.socket.closed, p.socket.deadlines(), p.socket.taken, p.sent, deadlinesIn[phase], err)
	}
	return nil
}

// deadlines are what a daemon holds over a connection, as text. Callers hold
// Sockets.mu.
func (k *socket) deadlines() string {
	if k.stalled && k.writing {
		return fmt.Sprintf("write deadline %v", k.writeFor)
	}
	return fmt.Sprintf("read deadline %v", k.held)
}

// quietGuest takes connections and reads them to their ends.
type quietGuest struct{ net.Listener }

func newQuietGuest() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(io.Discard, c) // what ends it is the tunnel's end
				c.Close()
			}()
		}
	}()
	return quietGuest{l}, nil
}
