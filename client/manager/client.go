package manager

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
)

// Client is one connection to a manager. It is safe for concurrent use. Close
// it.
type Client struct {
	ws       *websocket.Conn
	at       address
	hello    msp.Hello
	settings settings

	alive    context.Context // ended with the connection
	end      context.CancelFunc
	outgoing chan []byte // to the one writer
	workers  sync.WaitGroup

	mu    sync.Mutex
	next  uint64           // the last request id
	calls map[uint64]*call // by request id
	runs  map[uint64]*track
	err   error // why the connection ended; set once, before alive ends
}

// call is a request that waits for its reply.
type call struct {
	method  msp.Method
	into    any    // where the reply goes
	arrived func() // called under mu once it is there, before the next message is read
	done    chan error
}

func newClient(ws *websocket.Conn, at address, hello msp.Hello, s settings) *Client {
	c := &Client{ws: ws, at: at, hello: hello, settings: s, outgoing: make(chan []byte), calls: map[uint64]*call{}, runs: map[uint64]*track{}}
	c.alive, c.end = context.WithCancel(context.Background())
	c.workers.Go(c.read)
	c.workers.Go(c.write)
	if s.keepAlive > 0 {
		c.workers.Go(c.ping)
	}
	return c
}

// BootID is the boot of the manager: its runs end with it.
func (c *Client) BootID() uint64 { return c.hello.BootID }

// Done is closed when the connection has ended; [Client.Err] then says why.
func (c *Client) Done() <-chan struct{} { return c.alive.Done() }

// Err is why the connection ended, nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and every call with ErrClosed, and waits for the
// client's goroutines. Runs go on. It is safe to call it more than once.
func (c *Client) Close() error {
	c.fail(closedError())
	// MCLIENT-16: after the return nothing of the client runs.
	c.workers.Wait()
	return nil
}

// LogValue shows the address and the boot.
func (c *Client) LogValue() slog.Value {
	return slog.GroupValue(slog.String("manager", c.at.String()), slog.String("boot_id", fmt.Sprintf("%016x", c.hello.BootID)))
}

// fail ends the connection; the first reason counts.
//
// MCLIENT-4: it wakes every call and every wait, because nothing else will come.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
	}
	c.mu.Unlock()
	c.end()
	c.ws.CloseNow()
}

// write sends what callers hand over. It alone writes, with the connection's own
// context, because a write that is cut short would cost the connection.
func (c *Client) write() {
	for {
		select {
		case <-c.alive.Done():
			return
		case message := <-c.outgoing:
			if err := c.ws.Write(c.alive, websocket.MessageBinary, message); err != nil {
				c.fail(lost(err))
				return
			}
		}
	}
}

// ping keeps asking whether the manager is there.
func (c *Client) ping() {
	ticker := time.NewTicker(c.settings.keepAlive)
	defer ticker.Stop()
	for {
		select {
		case <-c.alive.Done():
			return
		case <-ticker.C:
			// MCLIENT-22: a machine that vanishes closes no connection.
			ctx, cancel := context.WithTimeout(c.alive, c.settings.keepAlive)
			err := c.ws.Ping(ctx)
			cancel()
			if err != nil {
				c.fail(lost(fmt.Errorf("no answer to a ping within %v", c.settings.keepAlive)))
				return
			}
		}
	}
}

// read routes what the manager sends, in its order, until the connection ends.
func (c *Client) read() {
	for {
		kind, message, err := c.ws.Read(c.alive)
		if err != nil {
			c.fail(lost(err))
			return
		}
		if kind != websocket.MessageBinary {
			c.fail(protocolError("the manager sent a text message"))
			return
		}
		header, payload, err := msp.ParseHeader(message)
		if err != nil {
			c.fail(protocolError("cannot read a message of the manager: %v", err))
			return
		}
		switch {
		case header.Method == msp.MethodEvent && header.Request == 0:
			err = c.event(payload)
		case header.Request != 0:
			c.reply(header, payload)
		case header.Method == msp.MethodError:
			var e msp.Error
			if err = replies.Unmarshal(payload, &e); err == nil {
				// It answers a request that the manager could not tell: some call would wait for ever.
				err = fmt.Errorf("the manager could not read a message: %w", &ReplyError{Code: e.Code, Message: e.Message})
			}
		}
		if err != nil {
			c.fail(&client.Error{Kind: client.KindProtocol, Wire: client.WireProtocolError, Err: err})
			return
		}
	}
}

// replies decodes what a manager sends.
//
// MCLIENT-11: a newer manager may say more than this client knows.
var replies = calldata.Options{IgnoreUnknown: true}

// reply hands a reply to its call. One that nobody waits for is dropped: its
// caller stopped waiting.
func (c *Client) reply(header msp.Header, payload []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// MCLIENT-3: by the id, because replies may overtake each other.
	waiting := c.calls[header.Request]
	if waiting == nil {
		return
	}
	delete(c.calls, header.Request)
	waiting.done <- c.takeLocked(waiting, header.Method, payload)
}

func (c *Client) takeLocked(waiting *call, method msp.Method, payload []byte) error {
	if method == msp.MethodError {
		var e msp.Error
		if err := replies.Unmarshal(payload, &e); err != nil {
			return protocolError("cannot read the error reply to %v: %v", waiting.method, err)
		}
		return replyError(waiting.method, e)
	}
	if method != waiting.method {
		return protocolError("%v was answered as %v", waiting.method, method)
	}
	if err := replies.Unmarshal(payload, waiting.into); err != nil {
		return protocolError("cannot read the reply to %v: %v", waiting.method, err)
	}
	if waiting.arrived != nil {
		waiting.arrived()
	}
	return nil
}

// do sends a request and waits for its reply.
func (c *Client) do(ctx context.Context, request *msp.Request, into any, arrived func()) error {
	method := request.Method()
	waiting := &call{method: method, into: into, arrived: arrived, done: make(chan error, 1)}
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	// MCLIENT-15: from 1, each once; 0 is the manager's own.
	c.next++
	id := c.next
	c.mu.Unlock()
	message, err := request.Message(id)
	if err != nil {
		return &client.Error{Kind: client.KindInvalidArg, Err: err}
	}
	// MCLIENT-20: refused here, because the manager's way to refuse is to drop the connection.
	if int64(len(message)) > c.settings.maxMessage {
		return invalidArg("the %v request takes %d bytes, and the manager accepts %d", method, len(message), c.settings.maxMessage)
	}
	c.mu.Lock()
	c.calls[id] = waiting
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.calls, id)
		c.mu.Unlock()
	}()
	begin := time.Now()
	select {
	case c.outgoing <- message:
		err = c.await(ctx, waiting)
	case <-ctx.Done():
		err = stopped(method.String(), ctx)
	case <-c.alive.Done():
		err = c.Err()
	}
	c.settings.log.Debug("manager request", "method", method.String(), "request_id", id, "duration_ms", time.Since(begin).Milliseconds(), "err", err)
	return err
}

// await waits for the reply to a request that was sent.
func (c *Client) await(ctx context.Context, waiting *call) error {
	select {
	case err := <-waiting.done:
		return err
	case <-ctx.Done():
		// MCLIENT-12: only the waiting ends; the connection serves others.
		return stopped("the reply to "+waiting.method.String(), ctx)
	case <-c.alive.Done():
		select {
		case err := <-waiting.done: // it came first
			return err
		default:
			return c.Err()
		}
	}
}
