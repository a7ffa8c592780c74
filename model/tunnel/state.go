package tunnel

// Phase is where the client stands.
type Phase uint8

// The phases.
const (
	Idle Phase = iota
	Hello
	Relaying
	Done
)

// End is how the client's tunnel ended.
type End uint8

// The ends.
const (
	NoEnd End = iota
	Closed
	Truncated
	ClosedUnproven
	Refused
	Failed
)

// String returns the end as a word.
func (e End) String() string {
	return [...]string{"none", "closed", "truncated", "closed-unproven", "refused", "failed"}[e]
}

// Kind is what a frame is.
type Kind uint8

// The kinds of frames. Mangled is a handshake message that was changed in
// flight: it authenticates for nobody.
const (
	NoFrame Kind = iota
	HelloFrame
	ReplyFrame
	Sealed
	CloseFrame
	Mangled
)

// What a sealed frame holds, in Frame.C. Bytes of a side are numbered from 0.
const (
	byteItem     = 0 // + the byte's number
	readyItem    = 8
	impostorItem = 9
	endItem      = 10
)

// Frame is one WebSocket frame, symbolically: a sealed one opens only in its
// session and at its position.
type Frame struct {
	Kind Kind
	A    uint8 // hello: made by the launcher; reply, sealed: the session; close: refusal
	B    uint8 // hello, reply: offers an end of stream; sealed: the position
	C    uint8 // hello: the port it was made for; sealed: what it holds
}

// The sessions.
const (
	noSession uint8 = iota
	realSession
	impostorSession
)

// Dir is a direction of the path.
type Dir uint8

// The directions.
const (
	ToFar Dir = iota
	ToClient
)

// Guest is what the guest's connection has come to.
type Guest uint8

// The guest's states.
const (
	Open Guest = iota
	Eof
	Reset
)

// String returns the state as a word.
func (g Guest) String() string { return [...]string{"open", "eof", "reset"}[g] }

const (
	queueCap = 10
	seenCap  = 8
	itemsCap = 8
)

// Queue holds the frames in flight in one direction, oldest first, with zero
// frames behind.
type Queue struct {
	Len    uint8
	Frames [queueCap]Frame
}

func (q *Queue) push(f Frame) {
	q.Frames[q.Len] = f
	q.Len++
}

func (q *Queue) pop() Frame {
	f := q.Frames[0]
	copy(q.Frames[:], q.Frames[1:])
	q.Frames[queueCap-1] = Frame{}
	q.Len--
	return f
}

// Seen holds the distinct frames that the path has seen in one direction.
type Seen struct {
	Len    uint8
	Frames [seenCap]Frame
}

func (s *Seen) add(f Frame) {
	for _, have := range s.Frames[:s.Len] {
		if have == f {
			return
		}
	}
	s.Frames[s.Len] = f
	s.Len++
}

// Items holds bytes that a party got, in the order in which it got them.
type Items struct {
	Len   uint8
	Bytes [itemsCap]uint8
}

func (i *Items) add(b uint8) {
	if i.Len < itemsCap {
		i.Bytes[i.Len] = b
		i.Len++
	}
}

// inOrder reports whether the items are a prefix of 0, 1, 2, …: each byte once,
// in order, none missing before one that is there.
func (i *Items) inOrder() bool {
	for n, b := range i.Bytes[:i.Len] {
		if b != byteItem+uint8(n) {
			return false
		}
	}
	return true
}

// Client is the side that asked for the tunnel.
type Client struct {
	Phase      Phase
	End        End
	Session    uint8
	FarOffered bool
	Sent       uint8
	NextOut    uint8
	NextIn     uint8
	EndedFirst bool
	Received   Items
}

// Far is the daemon, or an impostor in its place.
type Far struct {
	Established     bool
	Ready           bool // the ready message was read
	Dialed          bool
	Refused         bool
	CallerOffered   bool
	Done            bool
	Relayed         uint8
	NextOut         uint8
	NextIn          uint8
	Guest           Guest
	GuestEndedFirst bool
	SentEnd         bool
	DialedPort      uint8 // audit: the port that was dialed, from 1
	GuestReceived   Items
	Stolen          Items // impostor only
}

// State is the whole: two parties, the path between them, what its attacker may
// still do.
type State struct {
	Client  Client
	Far     Far
	Flight  [2]Queue // by Dir
	Seen    [2]Seen
	HungUp  bool
	Budget  uint8
	Touched bool // audit: the attacker has acted
}
