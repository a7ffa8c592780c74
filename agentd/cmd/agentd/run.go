package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"syscall"

	"microvms/agentd"
	"microvms/agentd/execution"
	"microvms/agentd/internal/handlers"
)

// Exit codes.
const (
	exitClean  = 0
	exitFailed = 1 // it could not serve
	exitUsage  = 2 // the command line or a setting that must not be guessed
)

// PROG-15: settings without effect included, so that nobody looks for one.
const usage = `agentd serves the MicroVM wire protocol, version 1.

Usage: agentd [--listen HOST] [--trace FILE] [--help | --version]
       agentd manager [--help]

  --listen HOST  IPv4 address to listen on (default 0.0.0.0)
  --trace FILE   record every transition as one JSON line in FILE
  --version      print the version
  --help         print this text

Settings are read from the environment. One that is unset or cannot be read
keeps its default, with a warning in the log.

  AGENTD_PORT                     port, 0 for a free one (9000)
  AGENTD_LOG                      debug, info, warn, error or off (info)
  AGENTD_MAX_BODY_BYTES           control request bodies (536870912)
  AGENTD_MAX_OUTPUT_BYTES         output of each stream kept for polls (8388608)
  AGENTD_STREAM_BUFFER_BYTES      replay window of each exec (1048576)
  AGENTD_MAX_STDIN_WRITE_BYTES    one stdin write (1048576)
  AGENTD_DISK_RESERVE_BYTES       free space that health measures against (268435456)
  AGENTD_OUTPUT_LINGER_SECS       wait for output after a command's exit (5)
  AGENTD_EXEC_TTL_SECS            life of an acked exec (900)
  AGENTD_SSE_KEEPALIVE_SECS       comment on a silent stream (15)
  AGENTD_DEFAULT_USER             user of starts that name none, by name or number
  AGENTD_PRESERVE_IMAGE_USER      1: the user in /etc/agentd/image-user, where the
                                  variable above is not set
  AGENTD_HOOK_HANDLER_TIMEOUT_SECS
                                  budget of a handler in /etc/agentd/hooks.d, cut
                                  to 1..55 (20)
  AGENTD_REPAIR_IDENTITY          give the VM an identity of its own at bootstrap (true)
  AGENTD_DROP_EXEC_CAPABILITIES   true or 1: commands and handlers never hold
                                  SYS_ADMIN, SYS_BOOT, SYS_MODULE, SYS_RAWIO,
                                  SYS_PTRACE, PERFMON or BPF (false); what is
                                  none of true, false, 1 and 0 refuses to start

Accepted, and without effect in this version:

  AGENTD_STREAM_CHANNEL_CAPACITY  events queued for a reader: none are queued

Logs are JSON lines on stdout; the line with msg "listening" carries the
address as addr. Example:

  AGENTD_PORT=0 agentd --listen 127.0.0.1
`

// run is the command without its process: it serves until ctx ends and returns
// the exit code.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer, p process) int {
	if len(args) > 0 && args[0] == "manager" {
		return runManager(ctx, args[1:], environ, stdout, stderr, p)
	}
	flags := flag.NewFlagSet("agentd", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	host := flags.String("listen", "0.0.0.0", "")
	tracePath := flags.String("trace", "", "")
	showVersion := flags.Bool("version", false, "")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return tell(stdout, stderr, usage)
	case err != nil:
		fmt.Fprintf(stderr, "agentd: %v\nagentd: try --help\n", err)
		return exitUsage
	case flags.NArg() > 0:
		fmt.Fprintf(stderr, "agentd: unexpected argument %q\nagentd: try --help\n", flags.Arg(0))
		return exitUsage
	case *showVersion:
		return tell(stdout, stderr, "agentd "+version+"\n")
	}
	set, warnings, err := readSettings(environ)
	if err != nil {
		fmt.Fprintf(stderr, "agentd: %v\n", err)
		return exitUsage
	}
	if set.dropCapabilities {
		// CAP-1: before the daemon starts a thread, a handler or a command.
		if err := p.dropCapabilities(); err != nil {
			fmt.Fprintf(stderr, "agentd: refusing to run commands with capabilities that must be dropped: %v\n", err)
			return exitUsage
		}
	}
	// PROG-4, PROG-5: lines of JSON, filtered where they are made.
	log := slog.New(slog.NewJSONHandler(stdout, &slog.HandlerOptions{Level: set.level}))
	for _, w := range warnings {
		log.Warn("setting keeps its default", "variable", w.variable, "reason", w.reason)
	}
	if err := serve(ctx, set, *host, *tracePath, log, p); err != nil {
		log.Error("daemon failed", "err", err)
		fmt.Fprintf(stderr, "agentd: %v\n", err)
		return exitFailed
	}
	return exitClean // PROG-9: an end that was asked for is no failure
}

// tell prints what was asked for and returns the exit code. PROG-16: what nobody
// got was not printed.
func tell(stdout, stderr io.Writer, text string) int {
	if _, err := io.WriteString(stdout, text); err != nil {
		fmt.Fprintf(stderr, "agentd: cannot write to the standard output: %v\n", err)
		return exitFailed
	}
	return exitClean
}

// listenHint says what to do about an address that cannot be had.
func listenHint(err error) string {
	// PROG-12: by the cause, since a wrong hint costs more than none.
	var name *net.DNSError
	var address *net.AddrError
	switch {
	case errors.As(err, &name), errors.As(err, &address):
		return "give --listen an IPv4 address of this machine"
	case errors.Is(err, syscall.EADDRINUSE):
		return "set AGENTD_PORT to a port that is not in use, or to 0 for a free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "no interface of this machine has the address that --listen names"
	case errors.Is(err, syscall.EACCES):
		return "set AGENTD_PORT to a port that this user may use"
	}
	return "look at --listen and AGENTD_PORT"
}

// serve runs the daemon with its process prepared for it.
func serve(ctx context.Context, set settings, host, tracePath string, log *slog.Logger, p process) error {
	c := set.config
	c.Version, c.Log = version, log
	c.OOMScoreAdj = p.prepare(log)
	c.Pace = execution.DefaultPace()
	c.HandlerDir = handlers.DefaultDir
	c.PowerOff = p.powerOff()
	if p.adoptsOrphans() {
		waits := execution.NewReaper()
		defer waits.Close()
		c.Waits = waits
		log.Info("reaping orphans")
	}
	if tracePath != "" {
		rec, err := openTrace(tracePath)
		if err != nil {
			return err
		}
		defer func() {
			if err := rec.Close(); err != nil {
				log.Error("trace is incomplete", "err", err)
			}
		}()
		c.Recorder = rec
	}
	if c.DefaultUser != nil {
		log.Info("default user", "user", *c.DefaultUser)
	}
	d, err := agentd.New(c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp4", net.JoinHostPort(host, strconv.Itoa(int(set.port))))
	if err != nil {
		_ = d.Shutdown(ctx)
		return fmt.Errorf("cannot listen: %w; %s", err, listenHint(err))
	}
	// PROG-10: with port 0 nothing else tells the port.
	log.Info("listening", "addr", l.Addr().String(), "version", version)
	if err := d.Serve(ctx, l); err != nil {
		return err
	}
	log.Info("stopped")
	return nil
}
