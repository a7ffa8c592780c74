// Package manager is the model of the manager: the life of a run and who is told
// of it (facts for the models, section M12), and the error order of one
// connection (M12b).
//
// A run passes through
//
//	Queued → Granted → Running → Stopping → Draining → Finished → Released
//	   │        │         └──────────────────→ ↑          ↑          ↑
//	   └────────┴── Failed ─────────────────── │ ─────────│──────────┘
//
// and a stop that is accepted before the spawn leads to Finished directly. A
// connection's outbox holds what was written to it and not yet read by its
// client, oldest first. Each request is one step, which decides, answers and
// subscribes; what the manager does by itself is one step each, too, so that a
// stop can fall between any two.
//
// Bounds: a connection has at most one unread reply, since a client that repeats
// its requests without reading makes the outbox grow without showing anything
// new. Cancel, Ack and Read are not bound to a connection: the manager does not
// look at who asks, and their answers change nothing.
package manager

import "microvms/model"

// The actions of the run model.
const (
	ActRun uint16 = iota
	ActReject
	ActGrant
	ActSpawnOk
	ActSpawnFail
	ActAbortSpawn
	ActExecutorExit
	ActFinish
	ActCancel
	ActDeadline
	ActShutdown
	ActAttach
	ActSubscribe
	ActDisconnect
	ActReconnect
	ActAck
	ActExpire
	ActRead
	ActDeliver
	ActRestart
)

var argumentValues = map[string][]string{
	"token": {"none", "t"},
	"boot":  {"current", "old"},
	"kind":  {"plain", "invalid", "big"},
}

// Actions returns the actions of the run model, indexed by their ids. The slice
// is fresh.
func Actions() []model.ActionInfo {
	of := func(name string, params ...string) model.ActionInfo {
		return model.ActionInfo{Name: name, Params: params, Values: argumentValues}
	}
	return []model.ActionInfo{
		ActRun:          of("Run", "conn", "token", "kind"),
		ActReject:       of("Reject", "run"),       // validation or version resolution failed
		ActGrant:        of("Grant", "run"),        // the run gets its permits
		ActSpawnOk:      of("SpawnOk", "run"),      // the executor is created
		ActSpawnFail:    of("SpawnFail", "run"),    // it cannot be created
		ActAbortSpawn:   of("AbortSpawn", "run"),   // a stop was accepted meanwhile
		ActExecutorExit: of("ExecutorExit", "run"), // its end is observed
		ActFinish:       of("Finish", "run"),       // its outputs are drained and the ending is published
		ActCancel:       of("Cancel", "run"),
		ActDeadline:     of("Deadline", "run"),
		ActShutdown:     of("Shutdown"),
		ActAttach:       of("Attach", "conn", "run", "boot"),
		ActSubscribe:    of("Subscribe", "conn", "run"), // the second half of a divided attach, which is a fault
		ActDisconnect:   of("Disconnect", "conn"),
		ActReconnect:    of("Reconnect", "conn"),
		ActAck:          of("Ack", "run"),
		ActExpire:       of("Expire", "run"),
		ActRead:         of("Read", "run"),
		ActDeliver:      of("Deliver", "conn"), // the client reads the oldest message
		ActRestart:      of("Restart"),         // the manager is killed and a new one started
	}
}
