// Package client drives one agentd daemon: the process inside a MicroVM that
// runs commands. A [Session] speaks wire v1 over HTTP and SSE; [Session.Command]
// mirrors os/exec on top of it, and the lower level works with exec ids, byte
// offsets and events.
//
// # Promises
//
//   - Ending a context means "stop waiting". It never touches the remote
//     command, unless the option says kill ([Cmd.KillOnCancel]).
//   - Every blocking call returns promptly once its context ends or the session
//     is closed. After [Session.Close] no goroutine of the session is left.
//   - A stream that ends without its exit event is a cut, never a success. Bytes
//     are delivered once each and in order; loss is always announced.
//   - The agent token is never formatted, logged or part of an error.
//
// Errors are [*Error] values: a coarse [Kind], where known a fine [WireKind],
// and a cause. Branch with errors.Is on the sentinels, or errors.As on
// [*APIError], [*GapError] and [*ExitError]; never on text.
//
// Files go through [Session.PutFile], [Session.GetFile] and the archives of
// folders; [Session.FS] is a view of a folder as io/fs, and package client/folder
// makes and extracts archives of local folders. [Session.DialTunnel] is a
// connection to a port of the VM. [WithProxy] is for VMs behind the platform's
// proxy.
//
// Sources: wire facts sections 1, 2, 6 to 8, 10, 11 and 14; client facts sections 8 to 11.
package client
