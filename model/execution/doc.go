// Package execution models what the daemon does with commands: the registry and
// the process group of each command, its output, and its standard input. One
// product space of all three would be too large to explore, so there are three
// models, each complete for the interleavings that it names:
//
//   - group ([NewGroup]): concurrent and repeated starts of two ids, spawn and
//     refusal, the leader's end and its reaping, a member that outlives it,
//     ignores SIGTERM, keeps the pipe or leaves the group, the deadline, the
//     group reap and a kill request with their escalations, the linger, the
//     terminal marker, ack, collection, and reuse of the id. Every daemon step
//     interleaves with every request, with every act of the processes and with
//     every timer. Not covered: two kill requests at once for one exec, and a
//     kill still in flight when its record is collected.
//   - output ([NewOutput]): bytes in the pipe, published and trimmed; readers
//     that attach at an offset, are served, fall behind, are cut and attach
//     again; the exit event. Every publication interleaves with every reader's
//     step. Not covered: a chunk larger than one unit.
//   - stdin ([NewStdin]): two writers, a child that reads or stalls, the write
//     timeout, the explicit end of file, the child's exit. Not covered: more
//     than one unanswered request a writer.
//
// What the parts share is small: the terminal marker (group) follows the last
// byte (output) and closes the input (stdin). Output and stdin therefore carry
// a reduced leader of their own.
//
// Time is a set of actions (DeadlineExpire, GraceExpire, LingerExpire,
// ExecCollect, StdinTimeout): a timer that is pending may fire at any moment,
// so every order of timers is explored and no duration matters.
//
// [Atomic] is the atomic form: one request is one step. It is the
// specification that recorded histories of a running daemon are judged by.
//
// Sources: models facts, sections M1 (registry), M13, M14, M15 and 6.1; wire
// facts, sections 7 and 8.
package execution
