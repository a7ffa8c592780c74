package manager

// The sizes of a state.
const (
	MaxRuns   = 3
	MaxConns  = 2
	outboxCap = 8
)

// Phase is where a run stands.
type Phase uint8

// The phases. A run that is Draining has lost its executor and given its permits
// back; its ending is fixed and not published. Failed is the end of a run that
// never had an executor.
const (
	Absent Phase = iota
	Queued
	Granted
	Running
	Stopping
	Draining
	Finished
	Failed
	Released
)

// String returns the phase as a word.
func (p Phase) String() string {
	return [...]string{"absent", "queued", "granted", "running", "stopping", "draining", "finished", "failed", "released"}[p]
}

// Cause is why a run ended.
type Cause uint8

// The causes.
const (
	NoCause Cause = iota
	ByExit
	ByCancel
	ByDeadline
	ByShutdown
)

// String returns the cause as events name it.
func (c Cause) String() string {
	return [...]string{"none", "exited", "cancelled", "deadline", "shutdown"}[c]
}

// End is what a terminal event says: a cause, or that the run failed to start.
type End uint8

// FailedToStart is the ending of a run that never had an executor; the other
// endings are the causes.
const FailedToStart = End(ByShutdown) + 1

// String returns the ending as a word.
func (e End) String() string {
	if e == FailedToStart {
		return "failed_to_start"
	}
	return Cause(e).String()
}

// Kind is what a run request asks for.
type Kind uint8

// The kinds of requests. An invalid one does not pass validation or version
// resolution; a big one costs two permits.
const (
	Plain Kind = iota
	Invalid
	Big
)

// RunState is one run. The fields after Held are what the manager need not
// know: they are for the properties.
type RunState struct {
	Phase Phase
	Token uint8 // 0: none
	Kind  Kind
	Cause Cause // why it is being stopped, or ended
	Held  uint8 // permits
	Kept  bool  // the result can be read

	HeldEver    bool
	StopQueued  bool  // a stop was accepted while it was queued
	StopEarly   bool  // a stop was accepted before it had an executor
	First       Cause // the first stop accepted, or the exit if that was observed first
	Spawned     uint8 // executors ever created, at most 2
	Published   uint8 // terminal events ever published, at most 2
	SpawnFailed bool  // the executor could not be created
}

// Subscription is what a connection has to do with a run.
type Subscription uint8

// The subscriptions. One that is Told has had the ending, as an event or as a
// snapshot. Between is a divided attach, Doubled two subscriptions of one
// connection: faults, both.
const (
	Unsubscribed Subscription = iota
	Subscribed
	Told
	Between
	Doubled
)

// Level is how far in a run's life a client has been led.
type Level uint8

// The levels.
const (
	Unaware Level = iota
	Introduced
	SawStart
	SawEnd
)

// View is one connection's relation to one run. The fields after Sub are for the
// properties.
type View struct {
	Sub     Subscription
	Foreign bool  // the client subscribed under another boot
	Level   Level // what it has read
	// StartOwed: it was subscribed when the start was published and has not read it.
	StartOwed bool
	Ends      uint8 // terminal events read, at most 2
	EndsOwed  uint8 // terminal events that it must get, at most 2
	Snapshot  bool  // it has read a terminal snapshot
}

// Item is one message in an outbox: its kind, the run and, if it tells of an
// ending, that ending. The zero Item is no message.
type Item uint8

// ItemKind is the kind of a message.
type ItemKind uint8

// The kinds of messages. The first four are replies, of which a connection has
// at most one unread.
const (
	NoItem          ItemKind = iota
	RunReply                 // the id
	SnapshotQueued           // to an attach
	SnapshotStarted          // to an attach
	SnapshotEnded            // to an attach
	StartedEvent
	EndedEvent
)

func item(kind ItemKind, run uint8, end End) Item {
	return Item(uint8(kind) | run<<3 | uint8(end)<<5)
}

// Kind returns the message's kind.
func (i Item) Kind() ItemKind { return ItemKind(i & 7) }

// Run returns the index of the message's run.
func (i Item) Run() uint8 { return uint8(i>>3) & 3 }

// End returns the ending that the message tells of, 0 if none.
func (i Item) End() End { return End(i >> 5) }

func (i Item) reply() bool { return i.Kind() >= RunReply && i.Kind() <= SnapshotEnded }

// level is how far the message leads its reader.
func (i Item) level() Level {
	switch i.Kind() {
	case RunReply, SnapshotQueued:
		return Introduced
	case SnapshotStarted, StartedEvent:
		return SawStart
	case SnapshotEnded, EndedEvent:
		return SawEnd
	}
	return Unaware
}

// Conn is one client's connection.
type Conn struct {
	Up    bool
	Drops uint8 // disconnects so far
	Len   uint8
	Out   [outboxCap]Item
	View  [MaxRuns]View
}

func (c *Conn) push(i Item) {
	if int(c.Len) == outboxCap {
		panic("manager: internal error: an outbox is full")
	}
	c.Out[c.Len] = i
	c.Len++
}

func (c *Conn) pop() Item {
	i := c.Out[0]
	copy(c.Out[:], c.Out[1:])
	c.Out[outboxCap-1] = 0
	c.Len--
	return i
}

// Outbox returns the unread messages, oldest first.
func (c *Conn) Outbox() []Item { return c.Out[:c.Len] }

// asking reports whether a reply is unread.
func (c *Conn) asking() bool {
	for _, i := range c.Out[:c.Len] {
		if i.reply() {
			return true
		}
	}
	return false
}

// queued counts the unread terminal events of a run.
func (c *Conn) queued(run uint8) uint8 {
	n := uint8(0)
	for _, i := range c.Out[:c.Len] {
		if i.Kind() == EndedEvent && i.Run() == run {
			n++
		}
	}
	return n
}

// State is a state of the run model.
type State struct {
	Boot    uint8
	Free    uint8 // permits
	Shut    bool  // a shutdown was asked for
	Orphans uint8 // executors that outlived their manager
	Runs    [MaxRuns]RunState
	Conns   [MaxConns]Conn
}

// live reports whether the run has not ended.
func (r *RunState) live() bool { return r.Phase >= Queued && r.Phase <= Draining }

// over reports whether the run's ending is published and it is known.
func (r *RunState) over() bool { return r.Phase == Finished || r.Phase == Failed }

// known reports whether requests find the run.
func (r *RunState) known() bool { return r.Phase >= Queued && r.Phase <= Failed }

// running reports whether the run has an executor.
func (r *RunState) running() bool { return r.Phase == Running || r.Phase == Stopping }

// end is what the run's terminal event says.
func (r *RunState) end() End {
	if r.Phase == Failed {
		return FailedToStart
	}
	return End(r.Cause)
}

// unfinished reports whether some run has not ended.
func (s *State) unfinished() bool {
	for i := range s.Runs {
		if s.Runs[i].live() {
			return true
		}
	}
	return false
}

// Closing reports whether the manager has nothing left but to flush its
// connections and go.
func (s *State) Closing() bool { return s.Shut && !s.unfinished() }
