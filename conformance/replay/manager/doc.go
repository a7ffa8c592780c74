// Package manager drives a real manager down the paths of its models
// (model/manager) and compares, after each step, what clients, executors and the
// status route show with what the model says.
//
// The table of actions and operations:
//
//	Run           run over the connection's socket; an invalid one asks for a pattern, which no manifest resolves
//	Attach        attach, under the boot id of this manager or of the one before
//	Cancel, Ack   from a connection of the driver's own, since who asks does not matter
//	Read          get_artifact of stdout, twice, from that connection
//	Deliver       the client takes the oldest message that it received and has not looked at
//	Disconnect    the client cuts its connection; Reconnect dials a new one
//	ExecutorExit  the executor is told to exit with code 0
//	Shutdown      SIGTERM, or Shutdown of the manager in the test process
//	Restart       SIGKILL and a new process, or the nearest thing in the test process
//	Deadline, Expire  the timer of that run fires
//
// What the manager does by itself follows at once where nothing holds it back; a
// held manager stands at a gate, and Reject, Grant, SpawnOk, SpawnFail,
// AbortSpawn, ExecutorExit and Finish let it pass one. Executors are the
// demonstration executor, stepped over its control socket; a spawn fails because
// the executor's file is missing at that moment.
//
// Nothing here imports the manager: what starts one is given to a driver.
package manager
