package manager

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/coder/websocket"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/conformance/replay"
	"microvms/model/manager"
)

// WireLimit is the bound of a message for a manager whose connections are
// replayed.
const WireLimit = 4096

type wireTransition = replay.Transition[manager.WireState]

// Wire returns the replay of the wire model on connections to one manager, which
// was started with WireLimit.
//
//	Send   the message's bytes; each class of the model is one shape
//	Write  the client takes the oldest control message, or the oldest page
//	Leave  a close frame, whose answer is awaited
//
// A request that is granted attaches to a run that has ended, or reads its
// artifact; one that is refused names a run that never was.
func Wire(ctx context.Context, m *Manager, target string, shop *Workshop) (replay.Spec[manager.WireState], error) {
	c := manager.WireReplay()
	w := &wire{manager: m, http: m.client()}
	if err := w.endRun(ctx, shop); err != nil {
		return replay.Spec[manager.WireState]{}, err
	}
	return replay.Spec[manager.WireState]{
		Name: "manager-" + c.Name, Target: target, Model: manager.NewWire(c),
		Start: func(ctx context.Context, _ manager.WireState) (replay.Driver[manager.WireState], error) {
			return w.connect(ctx)
		},
		Project: projectWire,
	}, nil
}

// wire is the manager with a run that has ended.
type wire struct {
	manager *Manager
	http    *http.Client
	boot    uint64
	run     uint64
}

// endRun runs an executor to its end.
func (w *wire) endRun(ctx context.Context, shop *Workshop) error {
	c, err := w.manager.dial(ctx, w.http)
	if err != nil {
		return err
	}
	defer c.cut()
	name := shop.path() + "-wire"
	if err := shop.lay(name, true); err != nil {
		return err
	}
	r := shop.request(name)
	a, err := c.ask(ctx, &msp.Request{Run: r})
	if err != nil {
		return err
	}
	var reply msp.RunReply
	if err := calldata.Unmarshal(a.payload, &reply); err != nil {
		return fmt.Errorf("the run was answered %v: %w", a.method, err)
	}
	p, err := shop.children.Await(ctx, name)
	if err == nil {
		err = p.Exit(ctx, 0)
	}
	w.boot, w.run = c.boot, reply.GenvmID
	for err == nil {
		attach := &msp.Request{Attach: &msp.Attach{BootID: c.boot, GenvmID: reply.GenvmID}}
		if a, err = c.ask(ctx, attach); err != nil {
			return err
		}
		var s msp.AttachReply
		if err = calldata.Unmarshal(a.payload, &s); err == nil && s.Snapshot.Terminal() {
			return nil
		}
	}
	return err
}

func (w *wire) connect(ctx context.Context) (*wireDriver, error) {
	ws, _, err := websocket.Dial(ctx, "ws://localhost"+msp.Path, &websocket.DialOptions{HTTPClient: w.http})
	if err != nil {
		return nil, err
	}
	ws.SetReadLimit(-1)
	d := &wireDriver{wire: w, ws: ws, done: make(chan struct{}), changed: make(chan struct{})}
	go d.read()
	if err := d.await(ctx, func() bool { return d.hello }); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// fenceID is the first of the ids that no message of the model has.
const fenceID = 1 << 32

// wireDriver is one connection. Its own requests have ids from fenceID on.
type wireDriver struct {
	*wire
	ws    *websocket.Conn
	done  chan struct{}
	fence uint64

	mu      sync.Mutex
	hello   bool
	queues  [2][]string // what arrived and was not taken: control, pages
	fenced  map[uint64]bool
	err     error
	changed chan struct{}
}

func (d *wireDriver) read() {
	defer close(d.done)
	for {
		kind, b, err := d.ws.Read(context.Background())
		d.mu.Lock()
		if err != nil {
			d.err = err
		} else {
			d.takeLocked(kind, b)
		}
		close(d.changed)
		d.changed = make(chan struct{})
		d.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// takeLocked enters one message in the words of the model.
func (d *wireDriver) takeLocked(kind websocket.MessageType, b []byte) {
	h, payload, err := msp.ParseHeader(b)
	first := !d.hello
	switch {
	case err != nil || kind != websocket.MessageBinary:
		d.queues[0] = append(d.queues[0], "a message that is none")
	case first:
		d.hello = h == msp.Header{Method: msp.MethodHello}
		if !d.hello {
			d.queues[0] = append(d.queues[0], fmt.Sprintf("%v instead of a hello", h.Method))
		}
	case h.Request >= fenceID:
		if d.fenced == nil {
			d.fenced = map[uint64]bool{}
		}
		d.fenced[h.Request] = true
	case h.Method == msp.MethodGetArtifact:
		d.queues[manager.PageQueue] = append(d.queues[manager.PageQueue], fmt.Sprintf("page(%d)", h.Request))
	case h.Method == msp.MethodError:
		d.queues[0] = append(d.queues[0], fmt.Sprintf("%s(%d)", errorWords(payload), h.Request))
	case h.Method == msp.MethodAttach:
		d.queues[0] = append(d.queues[0], fmt.Sprintf("reply(%d)", h.Request))
	default:
		d.queues[0] = append(d.queues[0], fmt.Sprintf("%v(%d)", h.Method, h.Request))
	}
}

// errorWords names an error as the model does: the refusals of requests are one.
func errorWords(payload []byte) string {
	var e msp.Error
	if err := calldata.Unmarshal(payload, &e); err != nil {
		return "an error that does not decode"
	}
	if e.Code == msp.CodeUnknownID {
		return "refused"
	}
	return e.Code.String()
}

// await waits for something that a message brings about.
func (d *wireDriver) await(ctx context.Context, is func() bool) error {
	for {
		d.mu.Lock()
		ok, changed, err := is(), d.changed, d.err
		d.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return fmt.Errorf("the connection ended: %w", err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Do performs the operation that the action stands for.
func (d *wireDriver) Do(ctx context.Context, t wireTransition) error {
	switch t.Action.ID {
	case manager.ActSend:
		m := manager.Messages[t.Action.Arg[0]]
		b, err := d.bytes(m)
		if err != nil {
			return err
		}
		kind := websocket.MessageBinary
		if m.Text {
			kind = websocket.MessageText
		}
		// A manager may cut the connection at the first bytes of a message that is too long.
		if err := d.ws.Write(ctx, kind, b); err != nil && !m.TooLong {
			return err
		}
	case manager.ActWrite:
		q := t.Action.Arg[0]
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.queues[q]) == 0 {
			return errors.New("nothing has arrived that could be read")
		}
		d.queues[q] = d.queues[q][1:]
	case manager.ActLeave:
		if err := d.ws.Close(websocket.StatusNormalClosure, ""); err != nil {
			return fmt.Errorf("the close frame was not answered: %w", err)
		}
	default:
		return errors.New("the table has no operation for the action")
	}
	return nil
}

// bytes gives a class of messages its shape.
func (d *wireDriver) bytes(m manager.Message) ([]byte, error) {
	h := msp.Header{Method: msp.MethodAttach, Request: uint64(m.ID)}
	run := d.run
	if m.Payload == manager.RefusedPayload {
		run = 1 << 40
	}
	request := msp.Request{Attach: &msp.Attach{BootID: d.boot, GenvmID: run}}
	page := msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: run, Field: msp.Stdout, MaxLen: 16}}
	switch {
	case m.Method == manager.PageMethod:
		h.Method, request = msp.MethodGetArtifact, page
	case m.Payload == manager.WrongTag:
		request = page
	}
	switch m.Method {
	case manager.NoMethod:
		h.Method = 8
	case manager.ServerMethod:
		h.Method = msp.MethodEvent
	}
	b, err := calldata.Append(h.Append(nil), &request)
	if err != nil {
		return nil, err
	}
	switch {
	case m.Payload == manager.Undecodable:
		b = b[:len(b)-1]
	case m.Payload == manager.Empty:
		b = b[:msp.HeaderBytes]
	}
	switch {
	case m.TooLong:
		b = append(b, make([]byte, WireLimit)...)
	case m.Text && m.Short:
		b = nil
	case m.Short:
		b = b[:msp.HeaderBytes-1]
	}
	if m.Text { // a text message holds UTF-8; what it would say as a binary one is lost with the bytes above 127
		b = slices.DeleteFunc(b, func(c byte) bool { return c > 127 })
	}
	return b, nil
}

// Observe looks at what has arrived. Two requests of the driver's own are
// answered behind everything else, one in each queue.
func (d *wireDriver) Observe(ctx context.Context, t wireTransition) (replay.Observation, error) {
	switch t.To.Phase {
	case manager.WireOpen:
		for _, m := range []msp.Method{msp.MethodAttach, msp.MethodGetArtifact} {
			d.fence++
			id := fenceID + d.fence
			class := manager.Message{Method: manager.PlainMethod, ID: 1}
			if m == msp.MethodGetArtifact {
				class.Method = manager.PageMethod
			}
			b, err := d.bytes(class)
			if err != nil {
				return nil, err
			}
			binary.BigEndian.PutUint64(b[2:], id)
			if err := d.ws.Write(ctx, websocket.MessageBinary, b); err != nil {
				return wireSeen("ended", nil, nil), nil
			}
			if err := d.await(ctx, func() bool { return d.fenced[id] }); err != nil {
				return nil, err
			}
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		return wireSeen("open", d.queues[0], d.queues[1]), nil
	default:
		select {
		case <-d.done:
		case <-ctx.Done():
			return wireSeen("open", nil, nil), nil
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	phase := "dropped"
	switch {
	case t.Action.ID == manager.ActLeave:
		phase = "left"
	case websocket.CloseStatus(d.err) >= 0:
		phase = "close frame"
	}
	return wireSeen(phase, nil, nil), nil
}

// projectWire is what must be seen after a transition. Of a connection that has
// ended, how it ended.
func projectWire(t wireTransition) replay.Observation {
	var queues [2][]string
	if t.To.Phase == manager.WireOpen {
		for i := range queues {
			for _, m := range t.To.Queue[i].Messages() {
				queues[i] = append(queues[i], m.String())
			}
		}
	}
	return wireSeen(t.To.Phase.String(), queues[0], queues[1])
}

func wireSeen(phase string, control, pages []string) replay.Observation {
	return replay.Observation{field("connection", phase), field("control", control), field("pages", pages)}
}

// Close ends the connection.
func (d *wireDriver) Close() error {
	d.ws.CloseNow()
	<-d.done
	return nil
}
