package execution

import "microvms/model"

// The sizes of a stdin state.
const (
	MaxWriters  = 2
	MaxRequests = 3 // requests in one behaviour
	MaxOffered  = 6 // units of all requests together
)

// WriterStep is where a writer's request stands.
type WriterStep uint8

// The steps. A writer whose request was answered may make another.
const (
	WriterIdle WriterStep = iota
	WriterWaits
	WriterWrites
)

// StdinAnswer is how a stdin request is answered.
type StdinAnswer uint8

// The answers.
const (
	NoStdinAnswer StdinAnswer = iota
	StdinOK                   // 200
	StdinStalled              // 408 stdin_write_timeout
	StdinAbsent               // 409 stdin_not_requested
	StdinGone                 // 410 stdin_closed
)

var stdinAnswerNames = [...]string{"none", "ok", "stdin_write_timeout", "stdin_not_requested", "stdin_closed"}

// String returns the answer's slug.
func (a StdinAnswer) String() string { return stdinAnswerNames[a] }

// Writer is one client of the stdin route and its present or last request.
type Writer struct {
	Step    WriterStep
	Request uint8 // serial number of the request, from 1
	Units   uint8 // units that it offers
	EOF     bool  // it asks for the end of file after them
	Taken   uint8 // units that the pipe took
	Answer  StdinAnswer
	Told    uint8 // units that the answer says were written
}

// Unit is one unit of input in the order in which it entered the pipe: the
// request that it came with and its place there.
type Unit struct{ Request, Index uint8 }

// StdinState is a state of the stdin model.
type StdinState struct {
	Requested  bool // the start asked for a stdin pipe
	Phase      Phase
	Open       bool // the daemon holds the write end
	LeaderGone bool
	Sent       [MaxOffered]Unit
	Entered    uint8 // units of Sent that entered the pipe
	Read       uint8 // units of them that the child read
	SawEOF     bool  // the child read the end of file
	Foreign    bool  // the child read something that nobody sent to it
	Requests   uint8
	Writer     [MaxWriters]Writer
}

// The actions of the stdin model.
const (
	StdinWrite   uint16 = iota // (writer, units, eof) a request is judged
	StdinLock                  // (writer) it is its turn
	StdinPut                   // (writer) one unit enters the pipe, or the pipe is found broken
	StdinDone                  // (writer) all units are in; the end of file follows where it was asked for
	StdinTimeout               // (writer) the child did not drain in time
	ChildRead                  // the child reads a unit
	ChildEOF                   // the child reads the end of file
	StdinLeader                // the leader ends
	StdinExit                  // the terminal marker; the write end is closed
	stdinActions
)

var stdinActionNames = [stdinActions]string{
	"StdinWrite", "StdinLock", "StdinPut", "StdinDone", "StdinTimeout", "ChildRead", "ChildEOF", "LeaderExit", "ExecExit",
}

// StdinConfig bounds the stdin model and chooses its rule.
type StdinConfig struct {
	Name     string
	Writers  int   // at most MaxWriters
	Requests uint8 // requests of all writers together, at most MaxRequests
	Units    uint8 // most units that one request offers, at most 2
	Pipe     uint8 // units that the pipe holds
	Ends     bool  // requests may ask for the end of file
	Refused  bool  // an exec without stdin is an initial state as well
	Time     bool  // the write timeout may pass
	// Settled takes the daemon's steps as soon as they are possible.
	Settled   bool
	Liveness  bool
	Deviation StdinDeviation
}

type stdin struct{ c StdinConfig }

// NewStdin returns the stdin model under c.
func NewStdin(c StdinConfig) model.Model[StdinState] {
	i := stdin{c}
	m := model.Model[StdinState]{
		Name:       "execution",
		Config:     c.Name,
		Actions:    stdinActionInfo(),
		MayBeDead:  i.mayBeDead(),
		Init:       i.init,
		Next:       i.next,
		Properties: i.properties(),
	}
	if c.Liveness {
		m.Fairness = i.fairness()
	}
	return m
}

func (i stdin) init(out []StdinState) []StdinState {
	out = append(out, StdinState{Phase: Running, Requested: true, Open: true})
	if i.c.Refused {
		out = append(out, StdinState{Phase: Running})
	}
	return out
}

func stdinActionInfo() []model.ActionInfo {
	info := make([]model.ActionInfo, stdinActions)
	for id, name := range stdinActionNames {
		info[id] = model.ActionInfo{Name: name}
		if uint16(id) <= StdinTimeout {
			info[id].Params = []string{"writer"}
		}
	}
	info[StdinWrite].Params = []string{"writer", "units", "eof"}
	return info
}

func (i stdin) mayBeDead() []string {
	var dead []string
	off := func(present bool, ids ...uint16) {
		for _, id := range ids {
			if !present {
				dead = append(dead, stdinActionNames[id])
			}
		}
	}
	off(!i.c.Settled, StdinLock, StdinPut, StdinDone, StdinExit)
	off(i.c.Writers > 1, StdinLock)
	off(i.c.Time, StdinTimeout)
	off(i.c.Ends || i.c.Refused, ChildEOF)
	return dead
}

// StdinDeviation is a deliberate fault of the stdin rule.
type StdinDeviation uint8

// The deviations. M15 is a section of the models facts.
const (
	StdinSpecified    StdinDeviation = iota
	InheritStdin                     // M15: a child without stdin reads the daemon's
	WriteUnrequested                 // bytes are taken for an exec that did not ask for stdin
	InferEOF                         // M15: the end of a request is the end of file
	EOFBeforeData                    // the end of file overtakes the data of its request
	TimeoutCloses                    // a write timeout closes the pipe
	TimeoutReadsOK                   // a partial write is answered 200
	TimeoutKeepsTurn                 // a request that timed out keeps its turn
	NoTimeout                        // a stalled write waits for ever
	WritersMix                       // two requests write at once
	ClosedReadsOK                    // a request after the end of file is answered 200
	ExitKeepsOpen                    // the exit leaves the write end open
	BrokenKeepsOpen                  // a broken pipe leaves the write end open
	WrittenOverstated                // written counts what was offered before it was taken
	stdinDeviations
)

var stdinDeviationName = [stdinDeviations]string{
	InheritStdin: "inherit-stdin", WriteUnrequested: "write-unrequested", InferEOF: "infer-eof", EOFBeforeData: "eof-before-data",
	TimeoutCloses: "timeout-closes", TimeoutReadsOK: "timeout-reads-ok", TimeoutKeepsTurn: "timeout-keeps-turn",
	NoTimeout: "no-timeout", WritersMix: "writers-mix", ClosedReadsOK: "closed-reads-ok", ExitKeepsOpen: "exit-keeps-open",
	BrokenKeepsOpen: "broken-keeps-open", WrittenOverstated: "written-overstated",
}

var stdinDeviationText = [stdinDeviations]string{
	InheritStdin:      "a child that did not ask for stdin reads the daemon's own",
	WriteUnrequested:  "a request for an exec without stdin is taken",
	InferEOF:          "the end of a request closes the pipe",
	EOFBeforeData:     "the pipe is closed before the data that came with the end of file is written",
	TimeoutCloses:     "a write that times out closes the pipe",
	TimeoutReadsOK:    "a write that times out is answered 200",
	TimeoutKeepsTurn:  "a write that timed out keeps the next one waiting",
	NoTimeout:         "a write waits for its child for ever",
	WritersMix:        "two requests put their units into the pipe in turn",
	ClosedReadsOK:     "a request to a closed pipe is answered 200",
	ExitKeepsOpen:     "the exit of the exec leaves the pipe open",
	BrokenKeepsOpen:   "a pipe that nobody reads stays open",
	WrittenOverstated: "a request is answered with all it offered once its first unit is written",
}
