// Command agentd is the daemon inside a MicroVM. It serves wire version 1 on
// AGENTD_PORT, logs JSON lines to stdout and ends cleanly on SIGTERM and
// SIGINT. All settings come from AGENTD_* variables; see --help.
//
// As agentd manager it runs on a host instead, and serves the Manager Socket
// Protocol; see agentd manager --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is stamped by the linker (-X main.version=…).
var version = "0.0.0-dev"

func main() {
	ends := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if len(os.Args) > 1 && os.Args[1] == "manager" {
		// SETTING-17: the manager runs in terminals, too, and one that closes must not leave its socket behind.
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	// After the first signal the default action is back: a second one ends the
	// daemon without waiting for requests in flight.
	context.AfterFunc(ctx, stop)
	// PROG-8: a log reader that left must not end the only way into the VM. Notify,
	// and not Ignore: children inherit what is ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr, thisProcess{}))
}
