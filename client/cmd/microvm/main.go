// Command microvm works with commands inside MicroVMs. See microvm --help; its
// output and exit codes are a contract (client facts, sections 8 and 13).
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// CLI-7: a closed reader must not kill the process by SIGPIPE, because
	// commands may still owe work; writes fail with EPIPE instead.
	signal.Ignore(syscall.SIGPIPE)
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	a := newApp(os.Stdin, os.Stdout, os.Stderr, os.Getenv)
	a.interrupts, a.noOutput = interrupts, closedAtStart(int(os.Stdout.Fd()))
	os.Exit(a.run(context.Background(), os.Args[1:]))
}
