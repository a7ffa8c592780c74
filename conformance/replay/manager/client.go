package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// client is one connection. A goroutine of its own reads whatever arrives;
// replies go to who asked, and what tells of runs is kept in order until it is
// taken. Its methods are safe for concurrent use.
type client struct {
	ws   *websocket.Conn
	boot uint64
	done chan struct{} // closed at the connection's end

	mu      sync.Mutex
	id      uint64
	waiting map[uint64]chan reply
	arrived []message
	err     error // what ended the connection
}

// message is something that arrived and tells of a run: in the model's words, and
// with its token where it carries one.
type message struct {
	words string
	run   uint64
	token *string
	event bool
}

// reply is the answer to one request.
type reply struct {
	method  msp.Method
	payload []byte
}

// newClient takes over a connection that was just upgraded, and reads its hello.
func newClient(ctx context.Context, ws *websocket.Conn) (*client, error) {
	ws.SetReadLimit(-1)
	c := &client{ws: ws, done: make(chan struct{}), waiting: map[uint64]chan reply{}}
	kind, b, err := ws.Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("no hello: %w", err)
	}
	h, payload, err := msp.ParseHeader(b)
	var hello msp.HelloPayload
	if err == nil {
		err = calldata.Unmarshal(payload, &hello)
	}
	if err != nil || kind != websocket.MessageBinary || h != (msp.Header{Method: msp.MethodHello}) {
		return nil, fmt.Errorf("the first message is %v of request %d, no hello: %w", h.Method, h.Request, err)
	}
	c.boot = hello.Hello.BootID
	go c.read()
	return c, nil
}

func (c *client) read() {
	defer close(c.done)
	for {
		_, b, err := c.ws.Read(context.Background())
		if err != nil {
			c.mu.Lock()
			c.err = err
			c.mu.Unlock()
			return
		}
		c.take(b)
	}
}

// take enters one message.
func (c *client) take(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, payload, err := msp.ParseHeader(b)
	if err != nil {
		c.arrived = append(c.arrived, message{words: "a message without a header"})
		return
	}
	answered := c.waiting[h.Request]
	delete(c.waiting, h.Request)
	if m := understand(h, payload, answered != nil); m.words != "" {
		c.arrived = append(c.arrived, m)
	}
	if answered != nil {
		answered <- reply{h.Method, payload}
	}
}

// understand puts a message into the model's words; what tells of no run has
// none.
func understand(h msp.Header, payload []byte, asked bool) message {
	wrong := func(err error) message {
		return message{words: fmt.Sprintf("a %v that does not decode: %v", h.Method, err)}
	}
	switch {
	case h.Method == msp.MethodEvent && h.Request == 0:
		ev := new(msp.Event)
		if err := calldata.Unmarshal(payload, ev); err != nil {
			return wrong(err)
		}
		return eventWords(ev, false)
	case !asked:
		return message{words: fmt.Sprintf("a stray %v of request %d", h.Method, h.Request)}
	case h.Method == msp.MethodRun:
		var r msp.RunReply
		if err := calldata.Unmarshal(payload, &r); err != nil {
			return wrong(err)
		}
		return message{words: fmt.Sprintf("run-reply(%d)", r.GenvmID), run: r.GenvmID}
	case h.Method == msp.MethodAttach:
		var r msp.AttachReply
		if err := calldata.Unmarshal(payload, &r); err != nil {
			return wrong(err)
		}
		return eventWords(&r.Snapshot, true)
	}
	return message{}
}

// eventWords puts an event, or a snapshot, into the model's words.
func eventWords(ev *msp.Event, snapshot bool) message {
	kind, end := "an event of kind "+ev.Kind(), ""
	switch {
	case ev.Queued != nil && snapshot:
		kind = "snapshot-queued"
	case ev.Started != nil && snapshot:
		kind = "snapshot-started"
	case ev.Started != nil:
		kind = "started"
	case ev.Terminal() && snapshot:
		kind = "snapshot"
	case ev.Terminal():
		kind = "ended"
	}
	if ev.FailedToStart != nil {
		end = ", failed_to_start"
	}
	if f := ev.Finished; f != nil {
		end = ", " + string(f.Cause)
		if f.Cause == msp.Exited && (f.ExitCode == nil || *f.ExitCode != 0) {
			end += " with another code than 0"
		}
	}
	return message{fmt.Sprintf("%s(%d%s)", kind, ev.GenvmID(), end), ev.GenvmID(), ev.Token(), true}
}

// ask sends a request and waits for its answer.
func (c *client) ask(ctx context.Context, r *msp.Request) (reply, error) {
	answered := make(chan reply, 1)
	c.mu.Lock()
	c.id++
	id := c.id
	c.waiting[id] = answered
	c.mu.Unlock()
	b, err := r.Message(id)
	if err != nil {
		return reply{}, err
	}
	if err := c.ws.Write(ctx, websocket.MessageBinary, b); err != nil {
		return reply{}, fmt.Errorf("cannot send %v: %w", r.Method(), err)
	}
	select {
	case a := <-answered:
		return a, nil
	case <-c.done:
		return reply{}, fmt.Errorf("%v was not answered: %w", r.Method(), c.ended())
	case <-ctx.Done():
		return reply{}, fmt.Errorf("%v was not answered: %w", r.Method(), ctx.Err())
	}
}

// ended is what ended the connection.
func (c *client) ended() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fence returns once everything that the manager queued for the connection
// before has arrived: a request that changes nothing is answered behind it.
func (c *client) fence(ctx context.Context) error {
	a, err := c.ask(ctx, &msp.Request{Cancel: &msp.Target{GenvmID: 1 << 63}})
	if err == nil {
		err = a.says(msp.CodeUnknownID)
	}
	return err
}

// says compares an answer with the code of an error.
func (a reply) says(code msp.ErrorCode) error {
	if a.method != msp.MethodError {
		return fmt.Errorf("it was answered %v, not %v", a.method, code)
	}
	var e msp.Error
	if err := calldata.Unmarshal(a.payload, &e); err != nil {
		return err
	}
	if e.Code != code {
		return fmt.Errorf("it was answered %v, not %v", e.Code, code)
	}
	return nil
}

// outbox returns what has arrived and was not taken.
func (c *client) outbox() []message {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.arrived)
}

// pop takes the oldest message about the run; any: the oldest of all.
func (c *client) pop(run uint64, any bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.arrived, func(m message) bool { return any || m.run == run })
	if i < 0 {
		return errors.New("nothing has arrived that could be read")
	}
	c.arrived = slices.Delete(c.arrived, i, i+1)
	return nil
}

// popAll takes everything.
func (c *client) popAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.arrived = nil
}

// awaitEnd waits for the connection's end.
func (c *client) awaitEnd(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the connection did not end: %w", ctx.Err())
	}
}

// cut ends the connection from this side.
func (c *client) cut() {
	c.ws.CloseNow()
	<-c.done
}
