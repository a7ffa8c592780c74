package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"microvms/model/tunnel"
)

// tunnelPath is the path between a client and a daemon: a proxy that takes the
// WebSocket frames of both out of their connections and holds them until it is
// told what to do with each. It cannot read them: it obeys the model's path.
type tunnelPath struct {
	listener net.Listener
	daemon   string                   // host:port
	rewrite  func(head string) string // of the request's head
	bump     func()                   // called after every change

	mu     sync.Mutex
	conns  [2]net.Conn // by direction, the one that the frames go to
	flight [2][][]byte
	seen   [2][][]byte
	hungUp bool
	err    error
	wg     sync.WaitGroup
}

func newTunnelPath(daemon string, rewrite func(string) string, bump func()) (*tunnelPath, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &tunnelPath{listener: l, daemon: daemon, rewrite: rewrite, bump: bump}
	p.wg.Go(p.serve)
	return p, nil
}

func (p *tunnelPath) url() string { return "http://" + p.listener.Addr().String() }

// serve carries one connection: the upgrade as it is, then frames.
func (p *tunnelPath) serve() {
	client, err := p.listener.Accept()
	if err != nil {
		return
	}
	daemon, err := net.Dial("tcp", p.daemon)
	if err != nil {
		client.Close()
		p.fail(err)
		return
	}
	p.mu.Lock()
	p.conns[tunnel.ToFar], p.conns[tunnel.ToClient] = daemon, client
	p.mu.Unlock()
	fromClient, fromDaemon := bufio.NewReader(client), bufio.NewReader(daemon)
	head, err := readHead(fromClient)
	if err == nil {
		_, _ = io.WriteString(daemon, p.rewrite(head))
		head, err = readHead(fromDaemon)
	}
	if err != nil || !strings.HasPrefix(head, "HTTP/1.1 101 ") {
		p.fail(fmt.Errorf("the upgrade was answered %.40q (%v)", head, err))
		return
	}
	_, _ = io.WriteString(client, head)
	p.wg.Go(func() { p.collect(tunnel.ToFar, fromClient) })
	p.wg.Go(func() { p.collect(tunnel.ToClient, fromDaemon) })
}

func (p *tunnelPath) fail(err error) {
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	p.bump()
}

func readHead(r *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		line, err := r.ReadString('\n')
		b.WriteString(line)
		if err != nil || line == "\r\n" {
			return b.String(), err
		}
	}
}

// collect takes frames until its side ends.
func (p *tunnelPath) collect(d tunnel.Dir, r *bufio.Reader) {
	for {
		f, err := readRawFrame(r)
		if err != nil {
			return
		}
		p.mu.Lock()
		if !p.hungUp {
			p.flight[d] = append(p.flight[d], f)
			p.seen[d] = append(p.seen[d], f)
		}
		p.mu.Unlock()
		p.bump()
	}
}

// readRawFrame reads one WebSocket frame (RFC 6455, section 5.2), header and
// mask included.
func readRawFrame(r *bufio.Reader) ([]byte, error) {
	b := make([]byte, 2)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	more := map[byte]int{126: 2, 127: 8}[b[1]&0x7f]
	if b[1]&0x80 != 0 {
		more += 4
	}
	b = append(b, make([]byte, more)...)
	if _, err := io.ReadFull(r, b[2:]); err != nil {
		return nil, err
	}
	size := uint64(b[1] & 0x7f)
	switch size {
	case 126:
		size = uint64(binary.BigEndian.Uint16(b[2:]))
	case 127:
		size = binary.BigEndian.Uint64(b[2:])
	}
	if size > 1<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", size)
	}
	b = append(b, make([]byte, size)...)
	_, err := io.ReadFull(r, b[len(b)-int(size):])
	return b, err
}

// forgedClose is a close frame with code 1000: what anyone on the path can make.
func forgedClose(d tunnel.Dir) []byte {
	if d == tunnel.ToFar {
		return []byte{0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe8} // with a mask of zeros
	}
	return []byte{0x88, 0x02, 0x03, 0xe8}
}

// lengths returns how many frames are in flight in each direction.
func (p *tunnelPath) lengths() (far, client int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.flight[tunnel.ToFar]), len(p.flight[tunnel.ToClient]), p.err
}

// deliver hands on the oldest frame, or the end of the connection where there
// is none. What the reader's side does with it is not the path's affair.
func (p *tunnelPath) deliver(d tunnel.Dir) {
	p.mu.Lock()
	c := p.conns[d]
	var f []byte
	if len(p.flight[d]) > 0 {
		f, p.flight[d] = p.flight[d][0], p.flight[d][1:]
	}
	p.mu.Unlock()
	if f == nil {
		c.Close()
		return
	}
	_, _ = c.Write(f)
}

// change applies f to the frames in flight.
func (p *tunnelPath) change(d tunnel.Dir, f func(q [][]byte) [][]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight[d] = f(p.flight[d])
}

func (p *tunnelPath) drop(d tunnel.Dir) {
	p.change(d, func(q [][]byte) [][]byte { return q[1:] })
}

func (p *tunnelPath) swap(d tunnel.Dir) {
	p.change(d, func(q [][]byte) [][]byte { q[0], q[1] = q[1], q[0]; return q })
}

func (p *tunnelPath) forgeClose(d tunnel.Dir) {
	p.change(d, func(q [][]byte) [][]byte { return append(q, forgedClose(d)) })
}

// replay sends a frame again that was seen.
func (p *tunnelPath) replay(d tunnel.Dir, i int) {
	p.change(d, func(q [][]byte) [][]byte { return append(q, p.seen[d][i]) })
}

// strip turns the bit in the oldest frame that would offer an end of stream if
// it travelled in clear: the first byte of a handshake message after its key.
func (p *tunnelPath) strip(d tunnel.Dir) {
	p.change(d, func(q [][]byte) [][]byte {
		f := append([]byte(nil), q[0]...)
		f[len(f)-17] ^= 0x01
		return append([][]byte{f}, q[1:]...)
	})
}

// hangUp loses everything in flight. Each side notices when it is told to.
func (p *tunnelPath) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hungUp = true
	p.flight = [2][][]byte{}
}

func (p *tunnelPath) close() {
	p.listener.Close()
	p.mu.Lock()
	for _, c := range p.conns {
		if c != nil {
			c.Close()
		}
	}
	p.mu.Unlock()
	p.wg.Wait()
}
