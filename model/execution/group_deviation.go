package execution

// GroupDeviation is a deliberate fault of the group rule. Specified is the rule
// itself; each other value must violate exactly the properties that the golden
// file lists.
type GroupDeviation uint8

// The deviations. M14 and 6.1 are sections of the models facts.
const (
	GroupSpecified       GroupDeviation = iota
	SpawnTwice                          // a concurrent start spawns as well
	RestartKnown                        // a retry of an exited id spawns again
	RefusalRegistered                   // a failed spawn stays registered
	ExitAtLeaderEnd                     // M14: wait on the leader only
	ExitAtDeadline                      // the deadline itself publishes the exit
	StopAtLeaderEnd                     // M14: kill stops at the leader's exit
	KillRefusedAfterExit                // a kill finds running execs only
	KillAtOnce                          // SIGKILL without SIGTERM and grace
	NeverKill                           // SIGTERM only
	KilledAlways                        // killed is true for an empty group
	ReapAfterLinger                     // M14: the group reap follows the linger
	EscalateTwice                       // M14: a timed-out group is reaped as well
	TimedOutLost                        // M14: exit code 0 clears timed_out
	LateDeadline                        // the deadline is not stopped by the leader's end
	WritersForgotten                    // writers_may_be_alive is never set
	SignalRecycled                      // SIGTERM to a number whose owner is not proved
	BusyUntilAck                        // M14: busy means unacked
	CountRunning                        // execs counts running records
	MarkerAtReap                        // child_exited is set when the leader is reaped
	ListZombies                         // procs lists a zombie leader
	ListEscaped                         // procs lists a member that left the group
	AckWhileRunning                     // 6.1: ack is accepted before the exit
	AckForgotten                        // an ack is answered, and the result is not released
	AckRepeats                          // a second ack is answered 200
	CollectAtExit                       // M14, 6.1: un-acked records are collected
	CollectRunning                      // a running record is collected
	IDRemembered                        // the id of a collected record stays taken
	PollReleases                        // a poll releases the result
	UnknownKilled                       // a kill of an unknown id is answered 200
	SignalAsCode                        // a signal death is published as 128 plus its number
	ResultAfterAck                      // a poll still shows the result once it was acked
	DeadlineMarksOnly                   // the deadline marks the exec and signals nobody
	SharedGroup                         // children share one process group
	SignalTree                          // the descendants are signalled, in the group or not
	StartsDeadlock                      // overlapping starts wait for each other
	PowerOffEarly                       // the machine goes down before the result is stored
	PowerOffAtExit                      // the machine goes down while a member lives
	groupDeviations
)

// groupDeviationText holds each deviation in one sentence, for reports.
var groupDeviationText = [groupDeviations]string{
	SpawnTwice:           "a second start of an id that is being spawned spawns as well",
	RestartKnown:         "a start of an id that has exited spawns again",
	RefusalRegistered:    "a failed spawn leaves a record behind",
	ExitAtLeaderEnd:      "the exit is published when the leader is reaped, whatever still holds the pipes",
	ExitAtDeadline:       "the exit is published when the deadline passes, before the leader is reaped",
	StopAtLeaderEnd:      "an escalation ends with the leader, though members live",
	KillRefusedAfterExit: "a kill request is refused once the exec has exited",
	KillAtOnce:           "an escalation begins with SIGKILL",
	NeverKill:            "an escalation never gets beyond SIGTERM",
	KilledAlways:         "a kill request answers killed although nothing was signalled",
	ReapAfterLinger:      "the group is reaped after the linger instead of before",
	EscalateTwice:        "a group that timed out is reaped as well",
	TimedOutLost:         "an exit code of 0 clears timed_out",
	LateDeadline:         "the deadline goes on after the leader's end and marks a finished exec as timed out",
	WritersForgotten:     "the end of the linger is not told in the result",
	SignalRecycled:       "the group is signalled by number although no live member was proved",
	BusyUntilAck:         "busy stays true until the exec is acked",
	CountRunning:         "health counts running execs only",
	MarkerAtReap:         "procs shows child_exited during the linger",
	ListZombies:          "procs lists a leader that has ended",
	ListEscaped:          "procs lists a process that has left the group",
	AckWhileRunning:      "a running exec can be acked",
	AckForgotten:         "an ack is answered 200, and the result is not released",
	AckRepeats:           "a second ack is answered like the first",
	CollectAtExit:        "an exited record is collected without an ack",
	CollectRunning:       "a running record is collected",
	IDRemembered:         "a start of a collected id is answered, and nothing is spawned",
	PollReleases:         "a poll of an exited exec releases its result",
	UnknownKilled:        "a kill of an unknown id is answered 200",
	SignalAsCode:         "a signal death is published as the exit code 128 plus the signal's number",
	ResultAfterAck:       "a poll shows the result of an acked exec",
	DeadlineMarksOnly:    "the deadline marks the exec as timed out and signals nobody",
	SharedGroup:          "the children of all execs share one process group",
	SignalTree:           "an escalation signals the leader's descendants, whatever group they are in",
	StartsDeadlock:       "two overlapping starts wait for each other",
	PowerOffEarly:        "the machine is powered off before the result is stored",
	PowerOffAtExit:       "the machine is powered off while a member of the group lives",
}
