package histories

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// guests are the programs behind a history's ports: listeners that come and go,
// and connections that echo. A connection greets with its serial number, which
// no other of the history has, and echoes units.
type guests struct {
	mu     sync.Mutex
	ports  [guestPorts]*guestPort
	conns  map[int]*guestConn // by serial
	serial int
	wg     sync.WaitGroup
}

// The ports of a history: one that always listens and one whose listener comes and goes.
const (
	steadyPort = iota
	ficklePort
	guestPorts
)

type guestPort struct {
	number     uint16
	held       int // a socket that is bound and does not listen: nobody else gets the port while no listener has it
	listener   net.Listener
	generation int // of the listener, from 1
}

// newGuests reserves the ports. Nothing listens yet.
func newGuests() (*guests, error) {
	g := &guests{conns: map[int]*guestConn{}}
	for i := range g.ports {
		p, err := reservePort()
		if err != nil {
			g.close()
			return nil, fmt.Errorf("cannot reserve a port for the guests of a history: %w", err)
		}
		g.ports[i] = p
	}
	return g, nil
}

func reservePort() (*guestPort, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	at, ok := name.(*unix.SockaddrInet4)
	if err != nil || !ok {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot bind a socket to a free port: %w", err)
	}
	return &guestPort{number: uint16(at.Port), held: fd}, nil
}

// listen starts the port's listener, unless it is there. generation is that of
// the listener that is there then.
func (g *guests) listen(port int) (generation int, changed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.ports[port]
	if p.listener != nil {
		return p.generation, false, nil
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var set error
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		return errors.Join(err, set)
	}}
	l, err := config.Listen(context.Background(), "tcp4", "127.0.0.1:"+strconv.Itoa(int(p.number)))
	if err != nil {
		return 0, false, fmt.Errorf("cannot listen for the guest: %w", err)
	}
	p.listener = l
	p.generation++
	generation = p.generation
	g.wg.Go(func() { g.accept(l, generation) })
	return generation, true, nil
}

// unlisten ends the port's listener, if it is there. Its connections live on.
func (g *guests) unlisten(port int) (changed bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.ports[port]
	if p.listener == nil {
		return false, nil
	}
	err = p.listener.Close()
	p.listener = nil
	return true, err
}

func (g *guests) accept(l net.Listener, generation int) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return // the listener was closed
		}
		g.mu.Lock()
		g.serial++
		c := &guestConn{conn: nc.(*net.TCPConn), serial: g.serial, generation: generation, done: make(chan struct{})}
		g.conns[c.serial] = c
		g.mu.Unlock()
		g.wg.Go(c.echo)
	}
}

// conn returns the guest's connection that greeted with the serial.
func (g *guests) conn(serial int) (*guestConn, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, ok := g.conns[serial]
	return c, ok
}

// close ends everything and waits for it.
func (g *guests) close() {
	for i, p := range g.ports {
		if p != nil {
			_, _ = g.unlisten(i)
			unix.Close(p.held)
		}
	}
	g.mu.Lock()
	for _, c := range g.conns {
		c.conn.Close()
	}
	g.mu.Unlock()
	g.wg.Wait()
}

// guestConn is one connection of a guest.
type guestConn struct {
	conn       *net.TCPConn
	serial     int
	generation int
	done       chan struct{} // closed when nothing more can come

	mu     sync.Mutex
	got    []byte
	echoed int  // units
	ended  bool // by the guest itself, first
	reset  bool
	over   bool
}

// guestGreeting is what a connection says first: one unit.
func guestGreeting(serial int) string { return fmt.Sprintf("g%03d", serial) }

// echo reads to the end and says each unit again, as soon as it is whole.
func (c *guestConn) echo() {
	defer close(c.done)
	defer c.conn.Close()
	c.say([]byte(guestGreeting(c.serial)))
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		if n > 0 {
			c.take(buf[:n])
		}
		if err != nil {
			c.mu.Lock()
			c.over = true
			c.reset = c.reset || !errors.Is(err, io.EOF)
			c.mu.Unlock()
			return
		}
	}
}

// take keeps what came, and echoes it unless the guest has ended its side.
func (c *guestConn) take(data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, data...)
	if whole := len(c.got) / Unit; !c.ended && whole > c.echoed {
		c.say(c.got[c.echoed*Unit : whole*Unit])
		c.echoed = whole
	}
}

func (c *guestConn) say(data []byte) {
	if _, err := c.conn.Write(data); err != nil {
		c.reset = true // the read that follows may see an end alone
	}
}

// end lets the guest end its side first: nothing is said after it. It returns
// how many units were echoed, and false when the other side had ended before.
func (c *guestConn) end() (echoed int, first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || c.ended {
		return c.echoed, false
	}
	c.ended = true
	c.conn.CloseWrite()
	return c.echoed, true
}

// saw waits for the end of the connection and returns what the guest got and how
// it ended: "own", "eof" or "reset".
func (c *guestConn) saw(ctx context.Context) (got, end string, err error) {
	select {
	case <-c.done:
	case <-ctx.Done():
		return "", "", fmt.Errorf("guest connection %d does not end: %w", c.serial, ctx.Err())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return string(c.got), "own", nil
	case c.reset:
		return string(c.got), "reset", nil
	}
	return string(c.got), "eof", nil
}
