package hostile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/api"
	"microvms/agentd/tunnel"
)

// verifiedPeer is a verified tunnel that stands.
type verifiedPeer struct {
	*peer
	session *tunnel.Session
	guest   *net.TCPConn
	hello   []byte // as they went over the wire
	ready   []byte
}

// seal seals data as the next record.
func (v *verifiedPeer) seal(data string) []byte {
	b, err := v.session.Seal(nil, []byte(data))
	if err != nil {
		panic("hostile: internal error: " + err.Error())
	}
	return b
}

// shake begins a verified tunnel and goes on to the reply.
func (p *probe) shake(ctx context.Context, port uint16) (c *peer, s *tunnel.Session, hello []byte, err error) {
	if p.Identity == nil {
		return nil, nil, nil, skipped("the daemon was launched without an identity that the rows know")
	}
	if c, err = p.upgrade(ctx, fmt.Sprintf("port=%d&identity=true", port)); err != nil {
		return nil, nil, nil, err
	}
	i, hello, err := tunnel.Initiate(p.Identity.Host, port, true)
	if err != nil {
		c.Close()
		return nil, nil, nil, err
	}
	_, _ = c.Write(frame(wsBinary, hello)) // the answer tells
	reply, _, code, reason, err := c.next()
	if err == nil {
		s, err = i.Finish(reply)
	}
	if err != nil {
		c.Close()
		return nil, nil, nil, fmt.Errorf("the handshake was answered %d bytes, %d %q: %w", len(reply), code, reason, err)
	}
	return c, s, hello, nil
}

// verified plays a case on a verified tunnel to a program of the guest.
func verified(f func(ctx context.Context, v *verifiedPeer) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		l, err := p.listen()
		if err != nil {
			return err
		}
		defer l.Close()
		return p.verifiedTo(ctx, l, func(v *verifiedPeer) error { return f(ctx, v) })
	}
}

func (p *probe) verifiedTo(ctx context.Context, l *program, f func(v *verifiedPeer) error) error {
	c, s, hello, err := p.shake(ctx, l.port)
	if err != nil {
		return err
	}
	defer c.Close()
	ready, err := s.SealReady(nil)
	if err != nil {
		return err
	}
	if _, err := c.Write(frame(wsBinary, ready)); err != nil {
		return err
	}
	g, err := l.dialed(ctx)
	if err != nil {
		return err
	}
	defer g.Close()
	return f(&verifiedPeer{c, s, g, hello, ready})
}

// tamperedTunnels is W11.
func tamperedTunnels() Row {
	forged := func(make func(v *verifiedPeer) [][]byte, got string) func(context.Context, *probe) error {
		return verified(func(_ context.Context, v *verifiedPeer) error {
			for _, r := range make(v) {
				_, _ = v.Write(frame(wsBinary, r)) // the daemon may have cut it by then
			}
			return errors.Join(v.ends(cut), guestSees(v.guest, got, true))
		})
	}
	return Row{
		ID: "W11", Name: "handshakes and records that are forged, changed bit by bit, cut, swapped, repeated or sealed for another position",
		Expect:       "4403 before the relay with one text for all, cut after it; the guest gets nothing of them, and is reset",
		Requirements: []string{"AGENTD-17", "AGENTD-18", "AGENTD-21", "TUNNEL-6", "TUNNEL-10", "TUNNEL-13"},
		Cases: []Case{
			{Name: "first messages", Do: forgedHellos},
			{Name: "ready messages", Do: forgedReadies},
			{Name: "handshake replayed", Do: replayedHandshake},
			{Name: "each byte of a record", Do: flippedRecords},
			{Name: "cut tag", Do: forged(func(v *verifiedPeer) [][]byte { b := v.seal("a"); return [][]byte{b[:len(b)-1]} }, "")},
			{Name: "swapped", Do: forged(func(v *verifiedPeer) [][]byte { a, b := v.seal("a"), v.seal("b"); return [][]byte{b, a} }, "")},
			{Name: "repeated", Do: forged(func(v *verifiedPeer) [][]byte { a := v.seal("a"); return [][]byte{a, a} }, "a")},
			{Name: "dropped", Do: forged(func(v *verifiedPeer) [][]byte {
				a, _, c := v.seal("a"), v.seal("b"), v.seal("c")
				return [][]byte{a, c}
			}, "a")},
			{Name: "the ready message again", Do: forged(func(v *verifiedPeer) [][]byte { return [][]byte{v.ready} }, "")},
			{Name: "65536 bytes", Do: forged(func(*verifiedPeer) [][]byte { return [][]byte{make([]byte, 65536)} }, "")},
			{Name: "of another session", Do: forged(func(v *verifiedPeer) [][]byte { return [][]byte{bytes.Repeat([]byte{7}, 40)} }, "")},
		},
	}
}

// refusedFirst sends a first message and returns the text of its refusal.
func (p *probe) refusedFirst(ctx context.Context, l *program, message []byte) (string, error) {
	c, err := p.upgrade(ctx, fmt.Sprintf("port=%d&identity=true", l.port))
	if err != nil {
		return "", err
	}
	defer c.Close()
	_, _ = c.Write(frame(wsBinary, message)) // the answer tells
	data, code, reason, err := c.rest()
	if err != nil || code != api.TunnelIdentityRefused || len(data) > 0 {
		return "", fmt.Errorf("%d bytes, %d %q: %w", len(data), code, reason, err)
	}
	return reason, nil
}

// forgedHellos sends first messages that the host did not make, or not for this
// tunnel. All are refused with the same text.
func forgedHellos(ctx context.Context, p *probe) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	c, _, hello, err := p.shake(ctx, l.port)
	if err != nil {
		return err
	}
	c.Close()
	stranger := p.Identity.Host
	stranger.Private[5] ^= 1
	_, strange, err := tunnel.Initiate(stranger, l.port, true)
	if err != nil {
		return err
	}
	_, elsewhere, err := tunnel.Initiate(p.Identity.Host, l.port+1, true)
	if err != nil {
		return err
	}
	messages := [][]byte{strange, elsewhere, {}, hello[:32], hello[:48], make([]byte, 49), make([]byte, 65535), make([]byte, 48)}
	for i := range hello {
		changed := bytes.Clone(hello)
		changed[i] ^= 1 << (i % 8)
		messages = append(messages, changed)
	}
	texts := map[string]bool{}
	for n, m := range messages {
		text, err := p.refusedFirst(ctx, l, m)
		if err != nil {
			return fmt.Errorf("message %d: %w", n, err)
		}
		texts[text] = true
	}
	if len(texts) != 1 {
		return fmt.Errorf("the refusals tell %d things apart", len(texts))
	}
	return l.undialed()
}

// forgedReadies answers the reply with something that is no ready message.
func forgedReadies(ctx context.Context, p *probe) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	play := func(message func(s *tunnel.Session) ([]byte, error)) error {
		c, s, _, err := p.shake(ctx, l.port)
		if err != nil {
			return err
		}
		defer c.Close()
		m, err := message(s)
		if err != nil {
			return err
		}
		_, _ = c.Write(frame(wsBinary, m)) // the answer tells
		return c.ends(api.TunnelIdentityRefused)
	}
	for i := range 37 {
		if err := play(func(s *tunnel.Session) ([]byte, error) {
			m, err := s.SealReady(nil)
			if err == nil {
				m[i] ^= 1 << (i % 8)
			}
			return m, err
		}); err != nil {
			return fmt.Errorf("byte %d: %w", i, err)
		}
	}
	for name, f := range map[string]func(s *tunnel.Session) ([]byte, error){
		"data":     func(s *tunnel.Session) ([]byte, error) { return s.Seal(nil, []byte("GET / HTTP/1.1\r\n\r\n")) },
		"the end":  func(s *tunnel.Session) ([]byte, error) { return s.SealEnd(nil) },
		"nothing":  func(*tunnel.Session) ([]byte, error) { return nil, nil },
		"unsealed": func(*tunnel.Session) ([]byte, error) { return []byte("microvms-tunnel-ready"), nil },
		"too early": func(s *tunnel.Session) ([]byte, error) {
			_, _ = s.Seal(nil, []byte("x"))
			return s.Seal(nil, []byte("microvms-tunnel-ready"))
		},
	} {
		if err := play(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return l.undialed()
}

// replayedHandshake plays a recorded caller again. Its first message opens, as
// it must, but nothing of it opens in the new session.
func replayedHandshake(ctx context.Context, p *probe) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	var hello, ready []byte
	if err := p.verifiedTo(ctx, l, func(v *verifiedPeer) error { hello, ready = v.hello, v.ready; return nil }); err != nil {
		return err
	}
	c, err := p.upgrade(ctx, fmt.Sprintf("port=%d&identity=true", l.port))
	if err != nil {
		return err
	}
	defer c.Close()
	_, _ = c.Write(append(frame(wsBinary, hello), frame(wsBinary, ready)...)) // the answer tells
	if _, ended, code, _, err := c.next(); ended || err != nil {
		return fmt.Errorf("the repeated first message: %d, %w", code, err)
	}
	return errors.Join(c.ends(api.TunnelIdentityRefused), l.undialed())
}

// flippedRecords changes each byte of a record in turn.
func flippedRecords(ctx context.Context, p *probe) error {
	l, err := p.listen()
	if err != nil {
		return err
	}
	defer l.Close()
	for i := range len("data") + tunnel.Overhead {
		if err := p.verifiedTo(ctx, l, func(v *verifiedPeer) error {
			m := v.seal("data")
			m[i] ^= 1 << (i % 8)
			_, err := v.Write(frame(wsBinary, m))
			return errors.Join(err, v.ends(cut), guestSees(v.guest, "", true))
		}); err != nil {
			return fmt.Errorf("byte %d: %w", i, err)
		}
	}
	return nil
}

// cutEnds is W12.
func cutEnds() Row {
	return Row{
		ID: "W12", Name: "the end of a stream, cut away by the path",
		Expect:       "the guest is reset and never reads an end; the daemon's own end is sealed, ahead of its close",
		Requirements: []string{"AGENTD-19", "AGENTD-20", "TUNNEL-17"},
		Cases: []Case{
			{Name: "a close in its place", Do: verified(func(_ context.Context, v *verifiedPeer) error {
				_, err := v.Write(append(frame(wsBinary, v.seal("part")), frame(wsClose, []byte{3, 0xe8})...))
				return errors.Join(err, guestSees(v.guest, "part", true))
			})},
			{Name: "a hang-up in its place", Do: verified(func(_ context.Context, v *verifiedPeer) error {
				_, err := v.Write(frame(wsBinary, v.seal("part")))
				v.Close()
				return errors.Join(err, guestSees(v.guest, "part", true))
			})},
			{Name: "sent", Do: verified(func(_ context.Context, v *verifiedPeer) error {
				part := v.seal("whole")
				end, err := v.session.SealEnd(nil)
				if err != nil {
					return err
				}
				_, err = v.Write(append(frame(wsBinary, part), frame(wsBinary, end)...))
				return errors.Join(err, guestSees(v.guest, "whole", false), v.ends(api.TunnelNormal))
			})},
			{Name: "the guest's", Do: verified(guestsEnd)},
		},
	}
}

// guestsEnd ends the guest's side and looks for the sealed end before the close.
func guestsEnd(_ context.Context, v *verifiedPeer) error {
	if _, err := v.guest.Write([]byte("all")); err != nil {
		return err
	}
	v.guest.CloseWrite()
	var got strings.Builder
	for {
		record, ended, code, _, err := v.next()
		if ended || err != nil {
			return fmt.Errorf("the tunnel ended with %d after %q without its end of stream: %w", code, got.String(), err)
		}
		data, end, err := v.session.Open(nil, record)
		if err != nil {
			return err
		}
		got.Write(data)
		if end {
			break
		}
	}
	if got.String() != "all" {
		return fmt.Errorf("the end of stream came after %q", got.String())
	}
	return v.ends(api.TunnelNormal)
}

// silence is how long a dial waits before the port counts as silent.
const silence = 300 * time.Millisecond

// silentPort dials a port whose program accepts nobody and whose backlog is
// full, so that it neither accepts nor refuses.
func silentPort(ctx context.Context, p *probe) error {
	if p.PID == 0 {
		return skipped("the daemon may run on another machine")
	}
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	if err := syscall.Listen(fd, 0); err != nil {
		return err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return err
	}
	port := name.(*syscall.SockaddrInet4).Port
	full := false
	for range 4 {
		d := net.Dialer{Timeout: silence}
		c, err := d.DialContext(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			full = true
			break
		}
		defer c.Close()
	}
	if !full {
		return skipped("this machine's backlog of no place does not fill")
	}
	return p.tunnelEnds(ctx, fmt.Sprint("port=", port), api.TunnelNoListener)
}
