// Package trace is where the running code says which transition of a model it
// takes. The code calls two hooks around each transition: it passes a [Gate]
// before, which a test can close, and tells a [Recorder] after, under the lock
// that guards the transition, so that the order of events is the order of
// effects. Both are nil in the shipped wiring unless a flag turns recording on.
package trace

import (
	"context"
	"time"
)

// Action names a transition. The names are those of the models' actions.
type Action string

// The bootstrap transitions (model/bootstrap).
const (
	HookReceive      Action = "HookReceive"      // a hook request enters the hook log
	HookDecide       Action = "HookDecide"       // under the lock: install, replay or conflict
	HookHandlerStart Action = "HookHandlerStart" // the image's handler starts; no other runs
	HookHandlerEnd   Action = "HookHandlerEnd"   // it ended, or its budget did: its outcome is on the hook's entry
	HookAnswer       Action = "HookAnswer"       // the answer is written
	ControlAuthorize Action = "ControlAuthorize" // under the lock: the bearer is judged
	ControlServe     Action = "ControlServe"     // an authorized request reaches its handler
	ControlAnswer    Action = "ControlAnswer"    // the answer is written
)

// The admission transitions (model/admission).
const (
	ConnWait Action = "ConnWait" // every slot is taken: a newcomer begins to wait; the point carries no request
	BodyEnd  Action = "BodyEnd"  // the end of a body is read and its handler not told; passed, and not recorded
)

// The execution transitions (model/execution).
const (
	ExecStart      Action = "ExecStart"      // under the registry lock: a new id is reserved, or a known one found
	ExecResolve    Action = "ExecResolve"    // user, group, environment and shell of a reserved start are resolved (model/execstart)
	ExecSpawn      Action = "ExecSpawn"      // the process is created
	ExecRefuse     Action = "ExecRefuse"     // the spawn failed; the reservation is removed
	LeaderReap     Action = "LeaderReap"     // the leader's status is collected
	DeadlineExpire Action = "DeadlineExpire" // the request's deadline passed
	GroupTerm      Action = "GroupTerm"      // SIGTERM to the group (deadline, reap or kill)
	GraceExpire    Action = "GraceExpire"    // the grace period passed with live members
	GroupKill      Action = "GroupKill"      // SIGKILL to the group
	GroupGone      Action = "GroupGone"      // a scan found no live member: the escalation ends
	LingerExpire   Action = "LingerExpire"   // the linger passed with a pipe still open
	OutputPublish  Action = "OutputPublish"  // bytes read from a pipe enter the store
	OutputEOF      Action = "OutputEOF"      // a pipe reached its end
	ExecExit       Action = "ExecExit"       // the terminal marker and result are published
	ExecKill       Action = "ExecKill"       // a kill request reaches the exec
	ExecAck        Action = "ExecAck"        // the result is released
	ExecCollect    Action = "ExecCollect"    // an acked record is removed after its retention
	PowerOff       Action = "PowerOff"       // the result is stored and the group has ended: the machine goes down
	StreamAttach   Action = "StreamAttach"   // a reader takes its snapshot and subscription
	StreamDeliver  Action = "StreamDeliver"  // an output event is handed to a reader
	StreamGap      Action = "StreamGap"      // a gap event is handed to a reader
	StreamExit     Action = "StreamExit"     // the exit event is handed to a reader
	StreamDetach   Action = "StreamDetach"   // a reader leaves
	StdinWrite     Action = "StdinWrite"     // bytes are offered to the child's stdin
	StdinTimeout   Action = "StdinTimeout"   // the child did not drain in time
	StdinEOF       Action = "StdinEOF"       // the write end is closed
)

// The tunnel transitions (model/tunnel). Point.Request is the request that was
// upgraded.
const (
	TunnelHello   Action = "TunnelHello"   // the first handshake message is judged: attribute "accepted"
	TunnelReady   Action = "TunnelReady"   // the ready message opened
	ReadyDeadline Action = "ReadyDeadline" // the ready message did not arrive in time
	HelloDeadline Action = "HelloDeadline" // the first handshake message did not arrive in time
	TunnelDial    Action = "TunnelDial"    // the guest port is dialed: attribute "listening"
	TunnelDeliver Action = "TunnelDeliver" // bytes of the caller are written to the guest
	TunnelSend    Action = "TunnelSend"    // bytes of the guest go out to the caller
	TunnelFinish  Action = "TunnelFinish"  // the tunnel ended: attributes "end" and "guest"
)

// The file transitions (model/transfer). A point carries its request, and the
// archive ones the Member they are about.
const (
	FileReserve    Action = "FileReserve"    // free space is held against the reserve before anything is created
	FileOpen       Action = "FileOpen"       // a single file is opened, by path, for reading or writing
	FileWrite      Action = "FileWrite"      // the body is in the file; its mode is applied again
	FileDelete     Action = "FileDelete"     // a partial file is removed after a failed write
	ArchiveSpool   Action = "ArchiveSpool"   // the whole body is in the spool
	ArchiveJudge   Action = "ArchiveJudge"   // every member was held to the lexical rules and the caps; nothing is placed yet
	ArchiveRoot    Action = "ArchiveRoot"    // the one root descriptor is opened, and the root created if it was missing
	ArchiveMember  Action = "ArchiveMember"  // a member's turn begins; no parent of it is resolved yet
	ArchiveResolve Action = "ArchiveResolve" // one parent component that is not held yet is resolved below its parent's handle
	ArchivePlace   Action = "ArchivePlace"   // the parent is held; the last component is about to be made below it
	ArchiveReserve Action = "ArchiveReserve" // free space is held against the reserve for all that the members declare
	ArchiveMode    Action = "ArchiveMode"    // a folder gets its deferred mode, by handle
	ArchiveWalk    Action = "ArchiveWalk"    // a member of a download is about to be opened
)

// The run transitions of the manager (model/manager). A point carries its Run,
// and where a connection asked for the step its Conn and its Request.
const (
	RunAccept    Action = "RunAccept"    // a run request is answered with its id: attributes "known" and "token"
	RunReject    Action = "RunReject"    // validation or version resolution failed: the run ends without a process
	RunGrant     Action = "RunGrant"     // the run at the head of the queue takes its permits
	RunSpawn     Action = "RunSpawn"     // the process is created and started is published
	RunSpawnFail Action = "RunSpawnFail" // no process could be created: the permits are back
	RunAbort     Action = "RunAbort"     // a run that was stopped before its spawn ends: the permits are back
	RunExit      Action = "RunExit"      // the process's exit is observed: its permits are back and its cause is fixed
	RunFinish    Action = "RunFinish"    // the result is stored and the terminal event of a process published
	RunStop      Action = "RunStop"      // a cancel, a deadline or the shutdown is accepted: attributes "cause" and "effective"
	RunAttach    Action = "RunAttach"    // a snapshot and a subscription are taken in one step
	RunAck       Action = "RunAck"       // an ended run is released
	RunExpire    Action = "RunExpire"    // an ended run is released by its retention
	RunRead      Action = "RunRead"      // a page of an artifact is read
	ConnDeliver  Action = "ConnDeliver"  // a message leaves a connection's queue
	ConnClose    Action = "ConnClose"    // a connection ended: its subscriptions are gone
)

// Point says where the code stands. Zero fields do not apply.
type Point struct {
	Action  Action
	Request uint64 // serial number of the HTTP request within this daemon, from 1
	Exec    string // exec id
	Reader  uint64 // serial number of a stream reader within its exec, from 1
	Member  uint64 // position of a member within its archive, from 1
	Run     uint64 // id of a run of the manager, from 1
	Conn    uint64 // serial number of a connection of the manager, from 1
}

// Event is one transition taken. Attrs holds what a model needs to judge it:
// small integers, booleans and short fixed words; never a token, a payload, an
// environment value or output.
type Event struct {
	Point
	Seq   uint64 // position in the order of effects, from 1, without holes
	Attrs []Attr
}

// Attr is one named fact of an event. Value is an int64, a bool or a fixed word.
type Attr struct {
	Key   string
	Value any
}

// Recorder receives each transition after it happened. Record is called with
// the lock held that guards the transition, so it must be quick and must not
// call back. It assigns Event.Seq.
type Recorder interface {
	Record(e Event)
}

// Gate can park a goroutine before a transition. Pass returns nil when the
// transition may go on, or the context's error. It is called without locks
// held.
type Gate interface {
	Pass(ctx context.Context, p Point) error
}

// Clock is the daemon's only source of time: deadlines, graces, lingers,
// retention and timestamps. All methods are safe for concurrent use.
type Clock interface {
	Now() time.Time
	// AfterFunc calls f in its own goroutine once d has passed.
	AfterFunc(d time.Duration, f func()) Timer
}

// Timer is a pending call of Clock.AfterFunc.
type Timer interface {
	// Stop prevents the call; it reports whether it was still pending.
	Stop() bool
}

// System is the real clock, monotonic where the platform's is.
type System struct{}

// Now returns the current time.
func (System) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (System) AfterFunc(d time.Duration, f func()) Timer { return time.AfterFunc(d, f) }
