// Package runs is the manager's run table: what a run is, who hears of it, and
// how it ends (manager facts, sections 3.5 to 5). It stands on the execution
// core and knows neither the socket nor the request's fields: the front doors
// give it a Spec and a Subscriber.
//
// The states of a run:
//
//	Run ──▶ queued ──RunGrant──▶ granted ──RunSpawn──▶ running ──RunExit──▶ draining ──RunFinish──▶ finished
//	          │ │                  │ │                   └─RunStop: killed, then as an exit ┘          │
//	          │ └─RunStop──────────┼─┼──────────────────────────────────────────────────────▶ finished ┤
//	          │                    │ └─RunStop, then RunAbort ──────────────────────────────▶ finished ┤
//	          └─RunReject──────────┴─RunSpawnFail──────────────────────────────────▶ failed to start ──┤
//	                                                                        RunAck, RunExpire: unknown ◀┘
//
// Every transition passes the Gate before it, with no lock held, and is
// recorded under the table's lock, which is also the lock under which events
// are handed to subscribers: so what a connection hears is in the order of what
// happened. One field, the run's cause, is written once: whoever comes first,
// an observed exit or an accepted stop, decides it.
//
// Permits are given in the order of acceptance. The preparation of a run begins
// when it is among the first Config.Window of the queue, so that the
// descriptors that preparations hold are bounded however long the queue is.
//
// When the daemon is killed its executors are killed by the kernel
// (execution.Command.DieWithParent). What they forked is not: it loses its
// pipes to the daemon, no more.
package runs
