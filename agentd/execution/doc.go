// Package execution is the execution core: a registry of commands, their
// process groups, their output and their stdin. Two front doors stand on it,
// the daemon's HTTP routes (wire facts, section 7) and the manager (manager
// facts, sections 4 and 11); where they differ, [Config] and [Command] carry a
// policy.
//
// Promises, each with its test:
//
//   - [Registry.Start] is atomic and idempotent: one child for any number of
//     concurrent starts of one key, and a start that fails leaves no record
//     (unless the policy says so).
//   - The end of a command has one order: leader exit, optional reap of the
//     group, drain of the pipes until both end or the linger passes, then in
//     one step the terminal marker, the result, the end of stdin and the end
//     of the stream. The last byte of output is published before that step.
//   - No signal goes to a stranger: see group.go for the argument.
//   - A reader never slows the child or another reader: it loses bytes
//     instead, and is told which (a gap).
//   - Time passes only by [trace.Clock].
//
// The states of a command:
//
//	(unknown) --Start--> reserved --spawned--> running --terminal--> exited --Ack--> acked --Collect--> (unknown)
//	                        |                                          |
//	                        +--failed--> (unknown), or with            +--Collect (retention from the end)--> (unknown)
//	                                     RegisterRefusals: exited
//
// What the core does not do: it resolves no user, shell or program name, it
// keeps no secret, and it does not make the daemon non-dumpable. That a child
// cannot read the daemon's memory is the work of the command (agentd/cmd/agentd
// clears the dumpable flag at its start); the core's part is that no
// descriptor of the daemon and none of its environment reach a child.
package execution
