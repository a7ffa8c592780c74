package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"microvms/agentd/api"
)

// silentBodies is H5: ten bytes of a hundred, then nothing.
func silentBodies() Row {
	return Row{
		ID: "H5", Name: "Content-Length 100, 10 bytes, then silence, or a close",
		Expect:       "408 and closed by the deadline; a body cut short is never taken for a whole one",
		Requirements: []string{"XPORT-7", "XPORT-9", "XPORT-17", "EXEC-6"},
		Together:     true,
		Cases: []Case{
			{Name: "hook, silence", Want: is(408).thenClosed(), Input: func(*probe) string {
				return head("POST", api.HookPrefix+"/run") + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"runHookP"
			}},
			{Name: "start, silence", Want: is(408).thenClosed(), Input: func(p *probe) string {
				return head("POST", api.PathExecStart) + bearer(p) + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"exec_id\""
			}},
			{Name: "no token, silence", Want: is(401).bodiless().thenClosed(), Input: func(*probe) string {
				return head("POST", api.PathExecStart) + "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"exec_id\""
			}},
			{Name: "unknown path, silence", Want: is(404).bodiless().thenClosed(), Input: func(*probe) string {
				return head("POST", "/v1/none") + "Content-Length: 100\r\n\r\n0123456789"
			}},
			{Name: "chunk that never ends", Want: is(408).thenClosed(), Input: func(*probe) string {
				return head("POST", api.HookPrefix+"/run") + "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n64\r\n{\"runHookP"
			}},
			{Name: "start cut by a close", Do: cutStart(fullClose)},
			{Name: "start cut by a half close", Do: cutStart(halfClose)},
			{Name: "bootstrap cut by a half close", Do: cutBootstrap},
		},
	}
}

type ending func(*peer) error

func fullClose(c *peer) error { return c.Close() }

// halfClose ends the sending and waits for the daemon's end of the connection.
func halfClose(c *peer) error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return errors.New("not a TCP connection")
	}
	if err := tcp.CloseWrite(); err != nil {
		return err
	}
	return c.closed()
}

// cutStart sends a start request that would be whole, but for a length that
// promises more.
func cutStart(end ending) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		c, err := p.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		id := p.id()
		p.mine(id)
		body := argv("/bin/true").body(id)
		fmt.Fprintf(c, "%s%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head("POST", api.PathExecStart), bearer(p), len(body)+50, body)
		if err := end(c); err != nil {
			return err
		}
		return p.expect(ctx, "GET", execPath(id, ""), "", refused(api.UnknownExec))
	}
}

// cutBootstrap sends a whole envelope with the installed token in a body that
// promises more: taken as whole it would be answered 200.
func cutBootstrap(ctx context.Context, p *probe) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	body := fmt.Sprintf(`{"runHookPayload":%q}`, fmt.Sprintf(`{"agent_token":%q}`, p.Token))
	fmt.Fprintf(c, "%sContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", head("POST", api.HookPrefix+"/run"), len(body)+50, body)
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	all, err := io.ReadAll(c.br)
	if err != nil {
		return fmt.Errorf("the connection was not closed: %w", err)
	}
	if strings.HasPrefix(string(all), "HTTP/1.1 2") {
		return fmt.Errorf("a body cut short was taken for a whole one: %.60q", all)
	}
	return nil
}

// earlyRefusals is H7.
func earlyRefusals() Row {
	return Row{
		ID: "H7", Name: "an upload of 1 GiB that is refused early",
		Expect:       "the client sees the status, not a reset; a bounded amount is taken from it",
		Requirements: []string{"XPORT-7", "XPORT-8", "XPORT-10", "XPORT-17", "AUTHZ-4"},
		Cases: []Case{
			{Name: "wrong token", Do: upload(api.PathExecStart, "Authorization: Bearer x\r\n", "", is(401).bodiless())},
			{Name: "above the body cap", Do: upload(api.PathExecStart, "", "Content-Type: application/json\r\n", is(413))},
			{Name: "unknown path", Do: upload("/v1/none", "Authorization: Bearer x\r\n", "", is(404).bodiless())},
			{Name: "wrong method", Do: upload(api.PathProcs, "", "", is(405).bodiless())},
			{Name: "hook", Do: upload(api.HookPrefix+"/ready", "Authorization: none\r\n", "", is(413))},
			{Name: "wrong token, in chunks", Do: chunkedUpload("Authorization: Bearer x\r\n", api.PathExecStart, is(401).bodiless())},
			{Name: "hook, in chunks", Do: chunkedUpload("", api.HookPrefix+"/ready", is(413))},
		},
	}
}

const (
	uploadBytes = 1 << 30
	// takenLimit bounds what a refused client may get rid of: the drain and the
	// socket buffers on both sides, which the kernel lets grow to megabytes.
	takenLimit = 64 << 20
)

// upload sends 1 GiB and expects to be refused; with no auth line it presents
// the right token.
func upload(target, auth, lines string, w want) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		if auth == "" {
			auth = bearer(p)
		}
		input := fmt.Sprintf("%s%s%sContent-Length: %d\r\n\r\n", head("POST", target), auth, lines, uploadBytes)
		return p.flood(ctx, input, strings.Repeat("\x00", 64<<10), w)
	}
}

func chunkedUpload(auth, target string, w want) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		input := head("POST", target) + auth + "Transfer-Encoding: chunked\r\n\r\n"
		return p.flood(ctx, input, "10000\r\n"+strings.Repeat("\x00", 64<<10)+"\r\n", w)
	}
}

// flood sends input and then piece, again and again, as fast as the daemon takes
// it, to 1 GiB. The answer must be readable all the same, and early.
func (p *probe) flood(ctx context.Context, input, piece string, w want) error {
	c, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	sent := make(chan int, 1)
	go func() {
		n, err := io.WriteString(c, input)
		for err == nil && n < uploadBytes {
			var more int
			more, err = io.WriteString(c, piece)
			n += more
		}
		sent <- n
	}()
	r, err := c.answer("POST")
	if err == nil {
		err = errors.Join(w.match(r), c.closed())
	}
	c.Close()
	if n := <-sent; n > takenLimit {
		err = errors.Join(err, fmt.Errorf("%d bytes were taken after the refusal", n))
	}
	return err
}
