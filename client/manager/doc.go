// Package manager is the client of `agentd manager`, which drives executions on
// a host over the Manager Socket Protocol (manager facts, sections 2 to 5).
//
// A [Client] is one connection. [Client.Run] starts a run and [Client.Attach]
// joins one; both give a [Run], whose [Run.Next] tells its events in order, each
// once, to the terminal one. Artifacts are read with [Run.Open] after the end,
// and [Run.Ack] releases the run. A [Session] does the same across connections:
// it dials again, and joins its runs again, until the manager itself has gone.
//
// # Promises
//
//   - No call hangs when the manager goes away: each pending call and each wait
//     for an event returns an error that matches [ErrLost]. A manager that is
//     there and silent is noticed only with [WithKeepAlive], or by the context.
//   - Ending a context means "stop waiting". It never stops a run.
//   - The identity of a run is [RunID], a boot of the manager and a number. A
//     request about a run of another boot is not sent, since the number would
//     name somebody else's run: it fails with a [*RestartedError].
//   - After [Client.Close] or [Session.Close] no goroutine is left.
//
// Errors are [*client.Error] values. Branch with errors.Is on the sentinels here
// and in package client, or with errors.As on [*ReplyError] and
// [*RestartedError]; never on text.
//
// All types are safe for concurrent use, unless they say otherwise. Events and
// artifacts that were handed out are shared: read them only.
package manager
