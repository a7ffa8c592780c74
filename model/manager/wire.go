package manager

import "microvms/model"

// The wire model: one connection, the messages that a client can send on it, the
// order in which the manager judges them, and the two queues that its answers
// leave by (facts for the models, section M12b; manager facts, section 2.3).
//
// What a request means is not its affair: one that decodes is answered or
// refused. A client may send again before it has read, and may use an id twice.

// The actions of the wire model.
const (
	ActSend   uint16 = iota // the client sends a message
	ActHandle               // the manager judges the oldest message
	ActNotify               // an event of a run is queued
	ActWrite                // the oldest message of a queue leaves, and the client has it
	ActLeave                // the client sends a close frame
)

// The queues.
const (
	ControlQueue uint8 = iota
	PageQueue
)

// Method is the class of a method number.
type Method uint8

// The classes of methods.
const (
	NoMethod     Method = iota // not in the table
	ServerMethod               // error, hello, event
	PlainMethod                // run, attach, cancel, ack
	PageMethod                 // get_artifact
)

// Payload is the class of a message's payload.
type Payload uint8

// The classes of payloads. AcceptedPayload and RefusedPayload decode; the others do not.
const (
	AcceptedPayload Payload = iota
	RefusedPayload
	Undecodable
	Empty
	WrongTag
)

// Message is one message of a client. The judgement ends at the first field
// that decides.
type Message struct {
	Name    string
	TooLong bool
	Text    bool
	Short   bool // fewer than 10 bytes
	Method  Method
	ID      uint8
	Payload Payload
}

// Messages are the messages that a client can send: each rule, and each pair of
// rules that one message can break.
var Messages = []Message{
	{Name: "too-long", TooLong: true, Method: PlainMethod, ID: 1},
	{Name: "too-long-text", TooLong: true, Text: true},
	{Name: "text", Text: true, Method: PlainMethod, ID: 1},
	{Name: "short-text", Text: true, Short: true},
	{Name: "short", Short: true, Method: PlainMethod, ID: 1},
	{Name: "no-method", Method: NoMethod, ID: 1},
	{Name: "no-method-id-0", Method: NoMethod},
	{Name: "no-method-undecodable", Method: NoMethod, ID: 1, Payload: Undecodable},
	{Name: "server-method", Method: ServerMethod, ID: 1},
	{Name: "server-method-id-0", Method: ServerMethod},
	{Name: "server-method-undecodable", Method: ServerMethod, ID: 1, Payload: Undecodable},
	{Name: "request-id-0", Method: PlainMethod},
	{Name: "request-id-0-undecodable", Method: PlainMethod, Payload: Undecodable},
	{Name: "undecodable", Method: PlainMethod, ID: 1, Payload: Undecodable},
	{Name: "empty", Method: PlainMethod, ID: 1, Payload: Empty},
	{Name: "wrong-tag", Method: PlainMethod, ID: 2, Payload: WrongTag},
	{Name: "granted-1", Method: PlainMethod, ID: 1, Payload: AcceptedPayload},
	{Name: "granted-2", Method: PlainMethod, ID: 2, Payload: AcceptedPayload},
	{Name: "refused", Method: PlainMethod, ID: 1, Payload: RefusedPayload},
	{Name: "page-1", Method: PageMethod, ID: 1, Payload: AcceptedPayload},
	{Name: "page-2", Method: PageMethod, ID: 2, Payload: AcceptedPayload},
	{Name: "page-refused", Method: PageMethod, ID: 2, Payload: RefusedPayload},
}

// Words are what the manager sends.
type Words uint8

// What the manager sends: no message, hello, an event, the reply to a request, a
// page, or an error.
const (
	NoWords Words = iota
	Hello
	Event
	Reply
	Page
	ErrorMalformed
	ErrorUnknownMethod
	ErrorBadRequestID
	ErrorRefused // of the request itself
)

// String returns what is sent as a word.
func (w Words) String() string {
	return [...]string{"nothing", "hello", "event", "reply", "page", "malformed_frame", "unknown_method", "bad_request_id", "refused"}[w]
}

// Sent is one message of the manager. Serial is its place in the order in which
// the messages were queued, for the properties.
type Sent struct {
	Words  Words
	ID     uint8
	Serial uint8
}

// WirePhase is where the connection stands.
type WirePhase uint8

// The phases of a connection. It was Dropped without a close frame, or
// CloseFrame was sent by the manager, which is a fault; or the client has Left.
const (
	WireOpen WirePhase = iota
	Dropped
	CloseFrame
	Left
)

// String returns the phase as a word.
func (p WirePhase) String() string {
	return [...]string{"open", "dropped", "close frame", "left"}[p]
}

const (
	inboxCap = 2
	queueCap = 7
)

// WireQueue holds messages that wait to be written, oldest first.
type WireQueue struct {
	Len  uint8
	Sent [queueCap]Sent
}

// Messages returns what waits, oldest first.
func (q *WireQueue) Messages() []Sent { return q.Sent[:q.Len] }

// WireState is a state of the wire model.
type WireState struct {
	Phase    WirePhase
	Budget   uint8 // messages that the client may still send
	Events   uint8 // events that may still be queued
	InLen    uint8
	In       [inboxCap]uint8 // indexes of Messages, oldest first
	Queue    [2]WireQueue
	Serial   uint8    // messages queued so far
	Last     [2]uint8 // serial of the last one written, by queue
	Heard    bool     // the client has hello
	Early    bool     // it had something before
	Owed     [3]uint8 // answers that it must get, by id
	Answers  [3]uint8 // answers that it has
	Overtook bool     // a page was written while a control message waited
}

// WireConfig is one configuration of the wire model.
type WireConfig struct {
	Name      string
	Deviation WireDeviation
	Budget    uint8
	Events    uint8
	// Settled has each message judged at once.
	Settled bool
}

// push queues a message of the manager.
func (s *WireState) push(queue uint8, w Words, id uint8) {
	q := &s.Queue[queue]
	s.Serial++
	q.Sent[q.Len] = Sent{w, id, s.Serial}
	q.Len++
}

// Initial is a connection that was just upgraded: its hello is queued, and of a
// settled one read.
func (c *WireConfig) Initial() WireState {
	s := WireState{Budget: c.Budget, Events: c.Events}
	if c.Deviation != NoHello && c.Deviation != LateHello {
		s.push(ControlQueue, Hello, 0)
	}
	if c.Settled {
		s.read(ControlQueue)
	}
	return s
}

// judge is what the manager does with a message, in the order of its rules.
func (c *WireConfig) judge(s *WireState, m Message) {
	d := c.Deviation
	refuse := func(w Words, id uint8) {
		if d == IDNotEchoed && id > 0 {
			id = 0
		}
		if d == ErrorsUnanswered {
			return
		}
		s.push(ControlQueue, w, id)
		if d == CloseOnError {
			s.Phase = CloseFrame
		}
	}
	switch {
	case m.TooLong && d == TooLongAnswered:
		refuse(ErrorMalformed, 0)
	case m.TooLong:
		s.Phase = Dropped
		if d == TooLongClosed {
			s.Phase = CloseFrame
		}
		s.InLen, s.In, s.Queue = 0, [inboxCap]uint8{}, [2]WireQueue{}
	case m.Text && d != TextIsRead:
		refuse(ErrorMalformed, 0)
	case m.Short:
		id := uint8(0)
		if d == ShortIDRead {
			id = m.ID
		}
		refuse(ErrorMalformed, id)
	case m.ID == 0 && d == IDBeforeMethod:
		refuse(ErrorBadRequestID, 0)
	case m.Method == NoMethod:
		refuse(ErrorUnknownMethod, m.ID)
	case m.Payload >= Undecodable && d == PayloadBeforeID:
		refuse(ErrorMalformed, m.ID)
	case m.ID == 0 && d != ZeroServed:
		refuse(ErrorBadRequestID, 0)
	case m.Method == ServerMethod:
		if d != ServerMethodIgnored {
			refuse(ErrorUnknownMethod, m.ID)
		}
	case m.Payload >= Undecodable && (d != EmptyIsNull || m.Payload != Empty):
		refuse(ErrorMalformed, m.ID)
	default:
		c.serve(s, m)
	}
}

// serve answers a request that decodes.
func (c *WireConfig) serve(s *WireState, m Message) {
	switch {
	case m.Payload == RefusedPayload && m.Method == PageMethod && c.Deviation == PageErrorsQueued:
		s.push(PageQueue, ErrorRefused, m.ID)
	case m.Payload == RefusedPayload:
		s.push(ControlQueue, ErrorRefused, m.ID)
	case m.Method == PageMethod && c.Deviation != OneQueue:
		s.push(PageQueue, Page, m.ID)
	case m.Method == PageMethod:
		s.push(ControlQueue, Page, m.ID)
	case c.Deviation == AnsweredTwice:
		s.push(ControlQueue, Reply, m.ID)
		s.push(ControlQueue, Reply, m.ID)
	default:
		s.push(ControlQueue, Reply, m.ID)
	}
}

type wireStep = model.Step[WireState]

// next appends every step of s.
func (c *WireConfig) next(s WireState, out []wireStep) []wireStep {
	if s.Phase != WireOpen {
		return c.writes(s, out) // what a fault left behind
	}
	if s.Budget > 0 && s.InLen < inboxCap {
		for i := range Messages {
			n := s
			n.Budget--
			n.In[n.InLen] = uint8(i)
			n.InLen++
			if c.Settled {
				c.handle(&n)
			}
			out = append(out, wireStep{Action: model.Act(ActSend, uint8(i)), State: n})
		}
	}
	if s.InLen > 0 {
		n := s
		c.handle(&n)
		out = append(out, wireStep{Action: model.Act(ActHandle), State: n})
	}
	if s.Events > 0 {
		n := s
		n.Events--
		n.push(ControlQueue, Event, 0)
		if c.Deviation == LateHello && s.Events == c.Events {
			n.push(ControlQueue, Hello, 0)
		}
		out = append(out, wireStep{Action: model.Act(ActNotify), State: n})
	}
	n := s
	n.Phase = Left
	n.InLen, n.In, n.Queue = 0, [inboxCap]uint8{}, [2]WireQueue{}
	if c.Deviation == QueuedAfterLeave {
		n.Queue = s.Queue
	}
	out = append(out, wireStep{Action: model.Act(ActLeave), State: n})
	return c.writes(s, out)
}

func (c *WireConfig) handle(s *WireState) {
	m := Messages[s.In[0]]
	if c.Deviation == OutOfOrder && s.InLen > 1 {
		m = Messages[s.In[1]]
		s.In[1] = s.In[0]
	}
	s.In[0], s.In[1] = s.In[1], 0
	s.InLen--
	if w, id := Verdict(m); w != NoWords {
		s.Owed[id]++
	}
	c.judge(s, m)
}

// writes appends the writer's steps: control before pages, at every choice.
func (c *WireConfig) writes(s WireState, out []wireStep) []wireStep {
	for queue := range uint8(2) {
		q := &s.Queue[queue]
		if q.Len == 0 || queue == PageQueue && c.Deviation == PagesForgotten {
			continue
		}
		waits := queue == PageQueue && s.Queue[ControlQueue].Len > 0
		if waits && c.Deviation != PagesFirst && !c.Settled {
			continue
		}
		n := s
		if last := q.Len - 1; c.Deviation == NewestFirst && last > 0 {
			sent := &n.Queue[queue].Sent
			sent[0], sent[last] = sent[last], sent[0]
		}
		n.read(queue)
		n.Overtook = n.Overtook || waits && !c.Settled
		out = append(out, wireStep{Action: model.Act(ActWrite, queue), State: n})
	}
	return out
}

// read moves the oldest message of a queue to the client.
func (s *WireState) read(queue uint8) {
	q := &s.Queue[queue]
	m := q.Sent[0]
	copy(q.Sent[:], q.Sent[1:])
	q.Sent[queueCap-1] = Sent{}
	q.Len--
	s.Last[queue] = m.Serial
	switch m.Words {
	case Hello:
		s.Heard = true
	case Event:
		s.Early = s.Early || !s.Heard
	default:
		s.Early = s.Early || !s.Heard
		s.Answers[m.ID] = min(s.Answers[m.ID]+1, 4)
	}
}

// Verdict is what the facts say that a message is answered, rule by rule: the
// properties' own reading of the table, and what a driver compares with. A
// message that is too long is not answered.
func Verdict(m Message) (Words, uint8) {
	known := m.Method != NoMethod
	switch {
	case m.TooLong:
		return NoWords, 0
	case m.Text || m.Short:
		return ErrorMalformed, 0
	case !known:
		return ErrorUnknownMethod, m.ID
	case m.ID == 0:
		return ErrorBadRequestID, 0
	case m.Method == ServerMethod:
		return ErrorUnknownMethod, m.ID
	case m.Payload == Undecodable || m.Payload == Empty || m.Payload == WrongTag:
		return ErrorMalformed, m.ID
	case m.Payload == RefusedPayload:
		return ErrorRefused, m.ID
	case m.Method == PageMethod:
		return Page, m.ID
	}
	return Reply, m.ID
}
