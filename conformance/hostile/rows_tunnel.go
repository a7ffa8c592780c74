package hostile

import (
	"bytes"
	"context"
	bigendian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"microvms/agentd/api"
)

// plainly plays a case on a plain tunnel to a program of the guest.
func plainly(f func(ctx context.Context, c *peer, g *net.TCPConn) error) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		l, err := p.listen()
		if err != nil {
			return err
		}
		defer l.Close()
		c, err := p.upgrade(ctx, fmt.Sprint("port=", l.port))
		if err != nil {
			return err
		}
		defer c.Close()
		g, err := l.dialed(ctx)
		if err != nil {
			return err
		}
		defer g.Close()
		return f(ctx, c, g)
	}
}

// sent plays bytes on a plain tunnel and holds its end to one of the codes. The
// guest's connection ends with it.
func sent(input []byte, codes ...int) func(context.Context, *probe) error {
	return plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
		if _, err := c.Write(input); err != nil {
			return err
		}
		if err := c.ends(codes...); err != nil {
			return err
		}
		return guestSees(g, "", false)
	})
}

// brokenFrames is W1. Our plain tunnel relays frames of any length in pieces,
// so that a length alone is no fault (wire facts, section 10.2).
func brokenFrames() Row {
	long := func(first byte, n uint64) []byte {
		return append(bigendian.BigEndian.AppendUint64([]byte{first, 0xff}, n), 0, 0, 0, 0)
	}
	return Row{
		ID: "W1", Name: "frames with impossible lengths, reserved bits, no mask, and broken control frames",
		Expect:       "1002, or dropped; a length that is merely huge is relayed as it comes, in flat memory",
		Requirements: []string{"TUNNEL-5", "TUNNEL-11"},
		Cases: []Case{
			{Name: "length 2^64-1", Do: sent(long(wsBinary, 1<<64-1), 1002, cut)},
			{Name: "length 2^63", Do: sent(long(wsBinary, 1<<63), 1002, cut)},
			{Name: "length 2^63-1", Do: hugeFrame(long(wsBinary, 1<<63-1))},
			{Name: "length in a longer form", Do: longForm},
			{Name: "reserved bit 1", Do: sent(frame(0xc2, nil), 1002, cut)},
			{Name: "reserved bits 2 and 3", Do: sent(frame(0xb2, nil), 1002, cut)},
			{Name: "reserved opcode", Do: sent(frame(0x83, nil), 1002, cut)},
			{Name: "no mask", Do: sent([]byte{wsBinary, 1, 'x'}, 1002, cut)},
			{Name: "control frame of 126 bytes", Do: sent(frame(wsPing, make([]byte, 126)), 1002, cut)},
			{Name: "fragmented control frame", Do: sent(frame(0x09, []byte("x")), 1002, cut)},
			{Name: "continuation without a start", Do: sent(frame(0x80, []byte("x")), 1002, cut)},
			{Name: "half a header", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				_, err := c.Write([]byte{wsBinary})
				c.Close()
				return errors.Join(err, guestSees(g, "", false))
			})},
		},
	}
}

// hugeFrame begins a frame that never ends. What came of it is relayed.
func hugeFrame(header []byte) func(context.Context, *probe) error {
	return plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
		data := bytes.Repeat([]byte("x"), 1<<20)
		if _, err := c.Write(append(header, data...)); err != nil {
			return err
		}
		got := make([]byte, len(data)/2)
		if _, err := io.ReadFull(g, got); err != nil || !bytes.Equal(got, data[:len(got)]) {
			return fmt.Errorf("the guest did not get the first half: %w", err)
		}
		c.Close()
		_, err := io.Copy(io.Discard, g)
		return err
	})
}

// longForm sends lengths in a longer form than needed: accepted.
func longForm(ctx context.Context, p *probe) error {
	return plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
		_, err := c.Write([]byte{wsBinary, 0xfe, 0, 1, 0, 0, 0, 0, 'a', wsBinary, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 'b'})
		got := make([]byte, 2)
		_, readErr := io.ReadFull(g, got)
		if err != nil || readErr != nil || string(got) != "ab" {
			return fmt.Errorf("the guest got %q: %v %v", got, err, readErr)
		}
		return nil
	})(ctx, p)
}

// oddFrames is W3.
func oddFrames() Row {
	closing := func(code uint16, reason string) []byte {
		return frame(wsClose, append(bigendian.BigEndian.AppendUint16(nil, code), reason...))
	}
	return Row{
		ID: "W3", Name: "text where binary is due, invalid UTF-8, impossible close codes, a reason of 124 bytes",
		Expect:       "text is bytes on a plain tunnel; a broken close is answered 1002; a running command is not affected",
		Requirements: []string{"TUNNEL-5", "TUNNEL-13"},
		Cases: []Case{
			{Name: "text and invalid UTF-8", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				_, err := c.Write(append(frame(wsText, []byte("text")), frame(wsText, []byte{0xff, 0xc0})...))
				_, _ = c.Write(frame(wsClose, nil))
				return errors.Join(err, guestSees(g, "text\xff\xc0", false))
			})},
			{Name: "text on a verified tunnel", Do: verified(func(_ context.Context, v *verifiedPeer) error {
				_, err := v.Write(frame(wsText, v.seal("x")))
				return errors.Join(err, v.ends(cut), guestSees(v.guest, "", true))
			})},
			{Name: "close code 1005", Do: sent(closing(1005, ""), 1002, cut)},
			{Name: "close code 999", Do: sent(closing(999, ""), 1002, cut)},
			{Name: "close code 5000", Do: sent(closing(5000, ""), 1002, cut)},
			{Name: "close of one byte", Do: sent(frame(wsClose, []byte{3}), 1002, cut)},
			{Name: "reason of 124 bytes", Do: sent(closing(1000, strings.Repeat("r", 124)), 1002, cut)},
			{Name: "beside a running command", Do: besideACommand(closing(999, ""))},
		},
	}
}

// besideACommand breaks a tunnel while a command runs.
func besideACommand(input []byte) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, argv("/bin/cat").with("stdin", true)); err != nil {
			return err
		}
		err := sent(input, 1002, cut)(ctx, p)
		if err := p.expect(ctx, "POST", execPath(id, "/stdin"), `{"data_b64":"aGk=","signal":"eof"}`, is(200)); err != nil {
			return err
		}
		t, followErr := p.follow(ctx, id, 0)
		if err != nil || followErr != nil || string(t.out) != "hi" {
			return fmt.Errorf("the command did not go on: %v %v", err, followErr)
		}
		return p.drop(ctx, id)
	}
}

// destinations is W9.
func destinations() Row {
	return Row{
		ID: "W9", Name: "tunnels to port 0, other hosts, the daemon's own port, a closed and a silent port",
		Expect:       "a malformed query 400, port 0 4400, nothing that accepts 4502; no host but the loopback",
		Requirements: []string{"TUNNEL-1", "TUNNEL-3", "TUNNEL-4"},
		Cases: []Case{
			{Name: "port 0", Do: func(ctx context.Context, p *probe) error { return p.tunnelEnds(ctx, "port=0", api.TunnelBadPort) }},
			{Name: "a host in the port", Do: func(ctx context.Context, p *probe) error {
				var errs []error
				for _, q := range []string{"port=169.254.169.254:80", "port=evil.example:22", "port=80%40evil.example", "port=80%00", "port=0x50", "port=65536"} {
					errs = append(errs, p.expect(ctx, "GET", api.PathTunnel+"?"+q, "", refused(api.MalformedRequest)))
				}
				return errors.Join(errs...)
			}},
			{Name: "a host beside the port", Do: func(ctx context.Context, p *probe) error {
				l, err := p.listen()
				if err != nil {
					return err
				}
				l.Close() // so that nothing listens there on the loopback
				return p.tunnelEnds(ctx, fmt.Sprintf("port=%d&host=169.254.169.254&address=127.0.0.2", l.port), api.TunnelNoListener)
			}},
			{Name: "closed port", Do: func(ctx context.Context, p *probe) error {
				l, err := p.listen()
				if err != nil {
					return err
				}
				l.Close()
				return p.tunnelEnds(ctx, fmt.Sprint("port=", l.port), api.TunnelNoListener)
			}},
			{Name: "silent port", Do: silentPort},
			{Name: "the daemon's own port", Do: ownPort},
		},
	}
}

func (p *probe) tunnelEnds(ctx context.Context, query string, code int) error {
	c, err := p.upgrade(ctx, query)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.ends(code)
}

// ownPort asks the daemon for its health through a tunnel to itself. It is a
// port of the loopback like any other, and gives nothing that the caller has
// not.
func ownPort(ctx context.Context, p *probe) error {
	_, port, err := net.SplitHostPort(p.addr)
	if err != nil {
		return err
	}
	c, err := p.upgrade(ctx, "port="+port)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write(frame(wsBinary, []byte(head("GET", api.PathHealth)+"Connection: close\r\n\r\n"))); err != nil {
		return err
	}
	data, code, _, err := c.rest()
	if err != nil || code != api.TunnelNormal || !strings.HasPrefix(string(data), "HTTP/1.1 200 ") {
		return fmt.Errorf("%d bytes %.40q and %d: %w", len(data), data, code, err)
	}
	return nil
}

// halves is W10.
func halves() Row {
	return Row{
		ID: "W10", Name: "one side's end, resets, a flood one way, and peers that never read",
		Expect:       "an end closes the whole tunnel with 1000, a guest's reset is 4500; memory stays flat",
		Requirements: []string{"TUNNEL-5", "TUNNEL-11", "TUNNEL-16"},
		Cases: []Case{
			{Name: "the guest ends", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				g.CloseWrite()
				return errors.Join(c.ends(api.TunnelNormal), guestSees(g, "", false))
			})},
			{Name: "the caller's socket ends", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				_, err := c.Write(frame(wsBinary, []byte("last")))
				c.Conn.(*net.TCPConn).CloseWrite()
				return errors.Join(err, guestSees(g, "last", false), c.ends(cut))
			})},
			{Name: "the guest resets", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				if _, err := g.Write([]byte("x")); err != nil {
					return err
				}
				if _, _, _, _, err := c.next(); err != nil { // relayed: from here on it is no failure to listen
					return err
				}
				g.SetLinger(0)
				g.Close()
				return c.ends(api.TunnelRelayFailed)
			})},
			{Name: "the caller resets", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				c.Conn.(*net.TCPConn).SetLinger(0)
				c.Close()
				return guestSees(g, "", false)
			})},
			{Name: "a flood to the caller", Do: floodDown},
			{Name: "a caller that never reads", Do: plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
				stuff(g)
				c.Close()
				if _, err := io.Copy(io.Discard, g); err != nil && !errors.Is(err, net.ErrClosed) {
					return nil // reset: its bytes were not taken
				}
				return nil
			})},
		},
	}
}

// stuff writes until nothing more is taken.
func stuff(c *net.TCPConn) {
	chunk := make([]byte, 64<<10)
	for {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

// floodDown sends much from the guest, while the other way is idle.
func floodDown(ctx context.Context, p *probe) error {
	want := min(p.Knobs.Volume, 1<<30)
	return plainly(func(_ context.Context, c *peer, g *net.TCPConn) error {
		go func() {
			chunk := make([]byte, 256<<10)
			for left := want; left > 0; left -= int64(len(chunk)) {
				if _, err := g.Write(chunk[:min(left, int64(len(chunk)))]); err != nil {
					break // the count below tells
				}
			}
			g.CloseWrite()
		}()
		var got int64
		for {
			payload, ended, code, _, err := c.next()
			got += int64(len(payload))
			if err != nil || ended {
				if err != nil || code != api.TunnelNormal || got != want {
					return fmt.Errorf("got %d of %d bytes, then %d: %w", got, want, code, err)
				}
				return nil
			}
		}
	})(ctx, p)
}
