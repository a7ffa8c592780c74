package manager

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// answerLimit bounds how long a client waits for a reply or an event. It is far
// above what any takes; a manager that exceeds it has hung, and the run says so.
const answerLimit = 30 * time.Second

// session is one connection of one client. One goroutine asks; another reads
// whatever arrives.
type session struct {
	wire  *wire
	clock func() int64
	conn  *Conn // written by the reader until done is closed
	done  chan struct{}

	mu      sync.Mutex
	id      uint64
	waiting map[uint64]*Operation
	arrived []arrival
	cut     bool // by the client
	err     error
	changed chan struct{}
}

// arrival is an Arrival before operations have their numbers.
type arrival struct {
	at    int64
	op    *Operation
	event *Told
	stray string
}

// open takes over an upgraded connection and reads its hello.
func open(w *wire, clock func() int64) (*session, error) {
	b, err := w.read()
	if err != nil {
		return nil, fmt.Errorf("no hello came: %w", err)
	}
	h, payload, err := msp.ParseHeader(b)
	var hello msp.HelloPayload
	if err == nil {
		err = calldata.Unmarshal(payload, &hello)
	}
	if err != nil || h != (msp.Header{Method: msp.MethodHello}) {
		return nil, fmt.Errorf("the first message is %v of request %d and no hello: %w", h.Method, h.Request, errors.Join(errHello, err))
	}
	s := &session{
		wire: w, clock: clock, conn: &Conn{Hello: hello.Hello.BootID}, done: make(chan struct{}),
		waiting: map[uint64]*Operation{}, changed: make(chan struct{}),
	}
	go s.read()
	return s, nil
}

// errHello is the error of a first message that is no hello.
var errHello = errors.New("it is no hello")

func (s *session) read() {
	defer close(s.done)
	for {
		b, err := s.wire.read()
		s.mu.Lock()
		if err != nil {
			s.err = err
		} else {
			s.take(b)
		}
		close(s.changed)
		s.changed = make(chan struct{})
		s.mu.Unlock()
		if err != nil {
			s.wire.conn.Close()
			return
		}
	}
}

// take enters one message.
func (s *session) take(b []byte) {
	a := arrival{at: s.clock()}
	defer func() { s.arrived = append(s.arrived, a) }()
	h, payload, err := msp.ParseHeader(b)
	if err != nil {
		a.stray = "a message without a header"
		return
	}
	if h == (msp.Header{Method: msp.MethodEvent}) {
		var ev msp.Event
		if err := calldata.Unmarshal(payload, &ev); err != nil {
			a.stray = "an event that does not decode"
			return
		}
		a.event = told(&ev)
		return
	}
	op := s.waiting[h.Request]
	if op == nil {
		a.stray = fmt.Sprintf("%v of request %d, which waits for none", h.Method, h.Request)
		return
	}
	if op.Answer, err = answer(op, h.Method, payload); err != nil {
		a.stray = fmt.Sprintf("%v of a %s request: %v", h.Method, op.Kind, err)
		return
	}
	delete(s.waiting, h.Request)
	a.op, op.Return = op, a.at
}

// answer decodes a reply.
func answer(op *Operation, method msp.Method, payload []byte) (*Answer, error) {
	if method == msp.MethodError {
		var e msp.Error
		if err := calldata.Unmarshal(payload, &e); err != nil {
			return nil, err
		}
		return &Answer{Code: e.Code.String()}, nil
	}
	if method != methods[op.Kind] {
		return nil, errors.New("it is the reply to another method")
	}
	switch op.Kind {
	case Run:
		var r msp.RunReply
		err := calldata.Unmarshal(payload, &r)
		return &Answer{Run: r.GenvmID}, err
	case Attach:
		var r msp.AttachReply
		err := calldata.Unmarshal(payload, &r)
		return &Answer{Snapshot: told(&r.Snapshot)}, err
	case Read:
		var r msp.ArtifactReply
		err := calldata.Unmarshal(payload, &r)
		return &Answer{Total: r.TotalLen, Data: string(r.Data)}, err
	}
	return &Answer{}, calldata.Unmarshal(payload, &msp.Empty{})
}

var methods = map[Kind]msp.Method{
	Run: msp.MethodRun, Attach: msp.MethodAttach, Cancel: msp.MethodCancel, Ack: msp.MethodAck, Read: msp.MethodGetArtifact,
}

// told keeps of an event what is judged.
func told(ev *msp.Event) *Told {
	t := &Told{Kind: ev.Kind(), Run: ev.GenvmID(), Token: ev.Token()}
	if f := ev.Finished; f != nil {
		t.Cause, t.Code, t.At, t.Stdout = string(f.Cause), f.ExitCode, f.FinishedAt.String(), f.Sizes.Stdout
	}
	return t
}

// perform sends operations in one write and waits for their replies, as far as
// the cut of the last one lets it. Each has its conn and its names. hung is an
// error of the run; everything else is in the operations.
func (s *session) perform(ctx context.Context, ops []*Operation, b burst, boots func(int) uint64) (hung error) {
	cut := ops[len(ops)-1].Cut
	var bytes []byte
	s.mu.Lock()
	for i, o := range ops {
		s.id++
		m, err := o.request(boots).Message(s.id)
		if err != nil {
			s.mu.Unlock()
			return fmt.Errorf("cannot encode %s: %w", o.Label(), err)
		}
		m = message(m, b.split)
		if i == len(ops)-1 && cut == CutBefore {
			m = m[:len(m)*b.at/100]
		} else {
			s.waiting[s.id] = o
		}
		bytes = append(bytes, m...)
		o.Call, o.Return = s.clock(), -1
	}
	s.mu.Unlock()
	_, err := s.wire.conn.Write(bytes)
	if err == nil && (cut == NoCut || cut == Dropped) {
		hung = s.await(ctx, answerLimit, func() bool { return len(s.waiting) == 0 })
	}
	if cut != NoCut || err != nil {
		s.leave()
	}
	if cut != NoCut {
		ops[len(ops)-1].Answer = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range ops {
		switch {
		case o.Known() || o.Cut != NoCut:
		case cut != NoCut:
			o.Cut = CutAfter
		default:
			o.Cut = Killed
		}
	}
	return hung
}

// await waits, so long at most, until is is true or the connection has ended. is
// is called with the lock held.
func (s *session) await(ctx context.Context, limit time.Duration, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		s.mu.Lock()
		ok, changed := is() || s.err != nil, s.changed
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("the manager did not answer: %w", ctx.Err())
		}
	}
}

// ended reports whether the connection was told the end of a run.
func (s *session) ended(run uint64) func() bool {
	return func() bool {
		for _, a := range s.arrived {
			if a.event != nil && a.event.Run == run && a.event.Ended() {
				return true
			}
		}
		return false
	}
}

// leave cuts the connection from this side and waits until nothing arrives.
func (s *session) leave() {
	s.mu.Lock()
	s.cut = s.cut || s.err == nil
	s.mu.Unlock()
	s.wire.conn.Close()
	<-s.done
}

// ending says how the connection ended. It is called once it has.
func (s *session) ending(stayed, died bool) Ending {
	switch {
	case stayed && s.cut:
		return Stayed
	case s.cut:
		return Cutoff
	case errors.Is(s.err, errClosed):
		return Closed
	case died:
		return Died
	}
	return Lost
}

// request returns the operation as the protocol has it.
func (o *Operation) request(boots func(int) uint64) *msp.Request {
	switch o.Kind {
	case Run:
		return &msp.Request{Run: o.run()}
	case Attach:
		return &msp.Request{Attach: &msp.Attach{BootID: boots(o.Boot), GenvmID: o.Run}}
	case Cancel:
		return &msp.Request{Cancel: &msp.Target{GenvmID: o.Run}}
	case Ack:
		return &msp.Request{Ack: &msp.Target{GenvmID: o.Run}}
	}
	return &msp.Request{GetArtifact: &msp.GetArtifact{GenvmID: o.Run, Field: msp.Artifact(o.Field), Offset: o.Offset, MaxLen: o.Max}}
}

// The names of executors, below the directory of executors.
const (
	Demonstration = "demonstration"
	nowhere       = "nowhere"
)

func (o *Operation) run() *msp.RunRequest {
	r := msp.NewRunRequest()
	r.Selector = msp.Selector{IsVersion: true, Version: Demonstration}
	r.IsSync, r.DebugMode = true, msp.DebugSafe
	r.HostData, r.Host, r.Calldata = "{}", "unix:///nowhere", []byte{0}
	r.BucketTotals = []calldata.Int{}
	if !o.Bare {
		r.Token = &o.Token
	}
	end := ""
	switch o.Program {
	case Quick:
		end = fmt.Sprintf("exit=%d", ExitCode)
	case Crash:
		end = "signal=9"
	case Hang:
		end = "hang"
	case Missing:
		r.Selector.Version = nowhere
	case Refused:
		r.Selector.Version = "re:("
	}
	r.ExtraArgs = []string{"stdout=" + o.Text, end}
	return r
}
