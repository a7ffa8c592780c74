package hostile

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"microvms/agentd/api"
)

// probe speaks to the daemon for the cases of one row. Its methods may be
// called concurrently.
type probe struct {
	Target
	addr string
	name string // begins the ids of the row's execs, so that a row can be played again
	seq  atomic.Uint64
	http *http.Client

	mu    sync.Mutex
	execs []string // started and not cleaned up
	notes []string
}

func newProbe(t Target, row string) *probe {
	var random [6]byte
	_, _ = rand.Read(random[:]) // never fails
	p := &probe{Target: t, name: strings.ToLower(row) + "-" + hex.EncodeToString(random[:])}
	if u, err := url.Parse(t.URL); err == nil {
		p.addr = u.Host
	}
	p.http = &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return p
}

// id returns an exec id that no other case uses.
func (p *probe) id() string { return fmt.Sprintf("%s-%d", p.name, p.seq.Add(1)) }

func (p *probe) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.notes = append(p.notes, fmt.Sprintf(format, args...))
}

// reply is an answer, read to its end.
type reply struct {
	status int
	header http.Header
	body   []byte
}

func (r *reply) String() string {
	return fmt.Sprintf("status %d with %d bytes %q", r.status, len(r.body), r.body[:min(len(r.body), 120)])
}

func (r *reply) code() api.Code {
	var e api.Error
	if json.Unmarshal(r.body, &e) != nil {
		return ""
	}
	return e.Code
}

// lawful holds an answer to what every answer owes (XPORT-1, AUTHZ-5).
func (r *reply) lawful() error {
	if r.header.Get(api.HeaderVersion) == "" {
		return fmt.Errorf("no %s header on %v", api.HeaderVersion, r)
	}
	if r.status == http.StatusUnauthorized || r.status == http.StatusServiceUnavailable {
		if len(r.body) > 0 || r.header.Get("WWW-Authenticate") != "" {
			return fmt.Errorf("a body or a challenge on %v", r)
		}
	}
	return nil
}

// want is how an answer must look.
type want struct {
	status []int    // one of them
	code   api.Code // of the JSON error; empty: not looked at
	empty  bool     // the body is
	closed bool     // the daemon closes the connection after the answer
}

func is(status ...int) want      { return want{status: status} }
func refused(code api.Code) want { return want{status: []int{code.Status()}, code: code} }
func (w want) bodiless() want    { w.empty = true; return w }
func (w want) thenClosed() want  { w.closed = true; return w }
func (w want) match(r *reply) (err error) {
	switch {
	case !slices.Contains(w.status, r.status):
		err = fmt.Errorf("%v, want status %v", r, w.status)
	case w.code != "" && r.code() != w.code:
		err = fmt.Errorf("%v, want the error %q", r, w.code)
	case w.empty && len(r.body) > 0:
		err = fmt.Errorf("%v, want an empty body", r)
	}
	return errors.Join(err, r.lawful())
}

// call sends one request with the bearer and JSON content type.
func (p *probe) call(ctx context.Context, method, path, body string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, p.URL+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.Token)
	req.Header.Set("Content-Type", api.MediaJSON)
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer to %s %.60q: %w", method, path, err)
	}
	return readReply(resp)
}

func readReply(resp *http.Response) (*reply, error) {
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	r := &reply{resp.StatusCode, resp.Header, body}
	if err != nil {
		return r, fmt.Errorf("answer with status %d was cut after %d bytes: %w", r.status, len(body), err)
	}
	return r, nil
}

// expect sends one request and holds the answer to w.
func (p *probe) expect(ctx context.Context, method, path, body string, w want) error {
	r, err := p.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if err := w.match(r); err != nil {
		return fmt.Errorf("%s %.60q: %w", method, path, err)
	}
	return nil
}

// peer is a raw connection. Its reads and writes end with the case's context.
type peer struct {
	net.Conn
	br *bufio.Reader
}

func (p *probe) dial(ctx context.Context) (*peer, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("cannot connect: %w", err)
	}
	if until, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(until)
	}
	return &peer{c, bufio.NewReader(c)}, nil
}

// answer reads one answer to a request of the method.
func (c *peer) answer(method string) (*reply, error) {
	resp, err := http.ReadResponse(c.br, &http.Request{Method: method})
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	return readReply(resp)
}

// closed waits until the daemon has closed the connection. A reset is a close.
func (c *peer) closed() error {
	_, err := io.Copy(io.Discard, c.br)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return errors.New("the connection was not closed")
	}
	return nil
}

// exchange sends bytes on a fresh connection, as they are, and holds the answer
// to w. The daemon need not read all of them.
func (p *probe) exchange(ctx context.Context, input string, w want) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.WriteString(c, input) // a daemon that has answered may have closed
	}()
	defer func() {
		c.Close()
		<-sent
	}()
	method, _, _ := strings.Cut(input, " ")
	r, err := c.answer(method)
	if err != nil {
		return err
	}
	if err := w.match(r); err != nil {
		return err
	}
	if w.closed {
		return c.closed()
	}
	return nil
}

// health reads GET /v1/health.
func (p *probe) health(ctx context.Context) (*api.Health, error) {
	r, err := p.call(ctx, "GET", api.PathHealth, "")
	if err != nil {
		return nil, err
	}
	if err := is(200).match(r); err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	var h api.Health
	if err := json.Unmarshal(r.body, &h); err != nil {
		return nil, fmt.Errorf("cannot read health: %w", err)
	}
	return &h, nil
}

// alive fails unless health answers and a good request works.
func (p *probe) alive(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Knobs.limit())
	defer cancel()
	if _, err := p.health(ctx); err != nil {
		return err
	}
	id := p.id()
	if err := p.start(ctx, id, script("echo good")); err != nil {
		return err
	}
	t, err := p.follow(ctx, id, 0)
	if err != nil {
		return err
	}
	if string(t.out) != "good\n" || t.exit.ExitCode == nil || *t.exit.ExitCode != 0 {
		return fmt.Errorf("a good command wrote %q and ended with %+v", t.out, t.exit)
	}
	return p.drop(ctx, id)
}

// await looks at ready, again and again, until it reports true or ctx ends.
func await(ctx context.Context, what string, ready func() (bool, error)) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := ready()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain until %s: %w", what, ctx.Err())
		}
	}
}
