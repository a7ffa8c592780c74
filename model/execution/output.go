package execution

import "microvms/model"

// The sizes of an output state.
const (
	MaxUnits   = 6 // units of output; a unit is what one read of a pipe takes
	MaxReaders = 2
)

// ReaderPhase is where one stream reader stands.
type ReaderPhase uint8

// The phases of a reader. Snapshotted is met under a deviation only.
const (
	Detached    ReaderPhase = iota // it never attached
	Attached                       // the daemon serves it
	Cut                            // its connection ended without an exit event
	Done                           // it got the exit event
	Snapshotted                    // it has a snapshot and no subscription yet
)

// Reader is one stream reader: what the daemon knows of it, and what its client
// has received. Sets of units are bit masks by offset.
type Reader struct {
	Phase ReaderPhase
	Next  uint8 // the daemon: offset of the next event
	Start uint8 // the client: offset of the first attach
	Want  uint8 // the client: offset to resume at
	Got   uint8 // units received
	Gaps  uint8 // units reported lost
	Twice uint8 // units received again
	Exits uint8 // exit events received; saturates at 2

	SnapEnd, Jump uint8 // met under a deviation only: units between the two are skipped
}

// OutputState is a state of the output model: one command, its pipes, what the
// daemon keeps of them, and the readers. Units alternate between stdout (even)
// and stderr (odd); both share one offset space.
type OutputState struct {
	Phase      Phase    // Running, Exited or Acked
	Written    uint8    // units that processes wrote
	Published  uint8    // units that entered the store
	Low        uint8    // the ring holds [Low, Published)
	Head       [2]uint8 // units of each stream that the result keeps
	LeaderGone bool
	Holder     bool // a member holds the pipes open
	Linger     Timer
	Total      uint8 // offset told by the exit event, once exited
	Reader     [MaxReaders]Reader
}

// The actions of the output model.
const (
	ChildWrite      uint16 = iota // a process writes a unit to a pipe
	OutputPublish                 // the daemon read it; it enters the store
	WriterFork                    // the leader forks a member that shares the pipes
	WriterExit                    // the member ends
	WriterLead                    // the leader ends
	OutputLinger                  // the linger passes with a pipe open
	OutputExit                    // the terminal marker
	OutputAck                     // the result is released
	OutputPoll                    // a poll
	StreamAttach                  // (reader, offset) snapshot and subscription
	StreamSubscribe               // (reader) under a deviation only
	StreamDeliver                 // (reader) an output event
	StreamGap                     // (reader) a gap event
	StreamExit                    // (reader) the exit event, and the body ends
	StreamDetach                  // (reader) the connection is cut
	outputActions
)

var outputActionNames = [outputActions]string{
	"ChildWrite", "OutputPublish", "MemberFork", "MemberExit", "LeaderExit", "LingerExpire", "ExecExit", "ExecAck", "ExecPoll",
	"StreamAttach", "StreamSubscribe", "StreamDeliver", "StreamGap", "StreamExit", "StreamDetach",
}

// OutputConfig bounds the output model and chooses its rule.
type OutputConfig struct {
	Name    string
	Units   uint8 // units that may be written, at most MaxUnits
	Ring    uint8 // units that the ring holds
	Head    uint8 // units of each stream that the result keeps
	Unread  uint8 // units that may lie written and unpublished
	Readers int   // at most MaxReaders
	// Offsets are what first attaches may ask for. A cut reader resumes at its own cursor.
	Offsets []uint8
	Holder  bool // a member may outlive the leader and go on writing
	Acks    bool
	Polls   bool
	Cuts    bool
	// Settled publishes, serves and exits as soon as it is possible, so that each transition is one act from outside.
	Settled   bool
	Liveness  bool
	Deviation OutputDeviation
}

// output is the model's rule under one configuration.
type output struct{ c OutputConfig }

// NewOutput returns the output model under c.
func NewOutput(c OutputConfig) model.Model[OutputState] {
	o := output{c}
	m := model.Model[OutputState]{
		Name:       "execution",
		Config:     c.Name,
		Actions:    outputActionInfo(),
		MayBeDead:  o.mayBeDead(),
		Init:       func(out []OutputState) []OutputState { return append(out, OutputState{Phase: Running}) },
		Next:       o.next,
		Properties: o.properties(),
	}
	if c.Liveness {
		m.Fairness = o.fairness()
	}
	return m
}

func outputActionInfo() []model.ActionInfo {
	info := make([]model.ActionInfo, outputActions)
	for id, name := range outputActionNames {
		info[id] = model.ActionInfo{Name: name}
		if uint16(id) >= StreamAttach {
			info[id].Params = []string{"reader"}
		}
	}
	info[StreamAttach].Params = []string{"reader", "offset"}
	return info
}

func (o output) mayBeDead() []string {
	dead := []string{"StreamSubscribe"}
	off := func(present bool, ids ...uint16) {
		for _, id := range ids {
			if !present {
				dead = append(dead, outputActionNames[id])
			}
		}
	}
	off(!o.c.Settled, OutputPublish, OutputExit, StreamDeliver, StreamGap, StreamExit)
	off(o.c.Ring < o.c.Units && len(o.c.Offsets) > 0, StreamGap)
	off(o.c.Holder, WriterFork, WriterExit, OutputLinger)
	off(o.c.Acks, OutputAck)
	off(o.c.Polls, OutputPoll)
	off(o.c.Cuts, StreamDetach)
	return dead
}

// OutputDeviation is a deliberate fault of the output rule.
type OutputDeviation uint8

// The deviations. M13 is a section of the models facts.
const (
	OutputSpecified  OutputDeviation = iota
	ResumeFromZero                   // M13: the offset of a second attach is ignored
	ResumeAtEnd                      // a second attach starts at the newest byte
	GapOmitted                       // M13: lost bytes are skipped in silence
	GapWithoutLoss                   // a gap is sent although the ring holds the bytes
	ExitWithoutFinal                 // M13: the exit is published while bytes lie in a pipe
	ExitEventEarly                   // a reader gets the exit event before the last output
	ExitEventTwice                   // the exit event is repeated
	CutReadsAsExit                   // a cut connection ends like an exit
	DetachKills                      // M13: the end of a reader ends the command
	AttachTrims                      // an attach drops what it has read from the ring
	PollConsumes                     // M13: a poll empties the result
	PublishAfterExit                 // output is published after the exit
	SplitAttach                      // the snapshot and the subscription are two steps
	ReaderBlocks                     // a reader that lags holds up the publication
	SharedCursor                     // readers share one cursor
	OffsetPerStream                  // each stream counts its own offsets
	FutureIsNow                      // an offset past the output is served from the newest byte
	RingUnbounded                    // nothing is trimmed
	RingKeepsOldest                  // the ring drops the newest bytes
	HeadKeepsNewest                  // the result keeps more than its cap
	AckDropsRing                     // an ack empties the ring
	TotalOmitted                     // the exit event does not tell the total
	ExitEventOmitted                 // a reader is never told of the exit
	LingerForever                    // a pipe that is held open keeps the exec running
	outputDeviations
)

var outputDeviationName = [outputDeviations]string{
	ResumeFromZero: "resume-from-zero", ResumeAtEnd: "resume-at-end", GapOmitted: "gap-omitted", GapWithoutLoss: "gap-without-loss",
	ExitWithoutFinal: "exit-without-final", ExitEventEarly: "exit-event-early", ExitEventTwice: "exit-event-twice",
	CutReadsAsExit: "cut-reads-as-exit", DetachKills: "detach-kills", AttachTrims: "attach-trims", PollConsumes: "poll-consumes",
	PublishAfterExit: "publish-after-exit", SplitAttach: "split-attach", ReaderBlocks: "reader-blocks", SharedCursor: "shared-cursor",
	OffsetPerStream: "offset-per-stream", FutureIsNow: "future-is-now", RingUnbounded: "ring-unbounded",
	RingKeepsOldest: "ring-keeps-oldest", HeadKeepsNewest: "head-over-cap", AckDropsRing: "ack-drops-ring", TotalOmitted: "total-omitted",
	ExitEventOmitted: "exit-event-omitted", LingerForever: "linger-forever",
}

var outputDeviationText = [outputDeviations]string{
	ResumeFromZero:   "a reader that attaches again is served from the first byte",
	ResumeAtEnd:      "a reader that attaches again is served from the newest byte",
	GapOmitted:       "bytes that left the ring are skipped without a gap event",
	GapWithoutLoss:   "a gap event covers bytes that the ring still holds",
	ExitWithoutFinal: "the exit is published while bytes lie unread in a pipe",
	ExitEventEarly:   "a reader gets the exit event before the last output",
	ExitEventTwice:   "a reader gets the exit event again",
	CutReadsAsExit:   "the end of a connection reads like an exit event",
	DetachKills:      "the command ends when a reader leaves",
	AttachTrims:      "an attach drops from the ring what lies before its offset",
	PollConsumes:     "a poll empties the result",
	PublishAfterExit: "output of a survivor is published after the exit",
	SplitAttach:      "a reader takes its snapshot in one step and subscribes in another",
	ReaderBlocks:     "nothing is published that a reader would lose",
	SharedCursor:     "an event that one reader gets is not sent to the other",
	OffsetPerStream:  "stdout and stderr count their offsets apart",
	FutureIsNow:      "an offset past the output is served from the newest byte",
	RingUnbounded:    "the ring keeps every byte",
	RingKeepsOldest:  "a full ring drops the newest bytes",
	HeadKeepsNewest:  "the result keeps more of a stream than its cap",
	AckDropsRing:     "an ack empties the ring",
	ExitEventOmitted: "the stream of an exited exec stays open without an exit event",
	LingerForever:    "an exec runs for as long as a pipe is held open",
	TotalOmitted:     "the exit event tells an offset of 0",
}
