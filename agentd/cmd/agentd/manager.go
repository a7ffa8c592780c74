package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"microvms/agentd/execution"
	"microvms/agentd/manager"
	config "microvms/agentd/manager/settings"
)

const managerUsage = `agentd manager runs executors for clients of the Manager Socket Protocol.

Usage: agentd manager [--socket PATH | [--host IP] [--port N]] [flags]

  --socket PATH         listen on a unix socket that only this user may use; one
                        that is left over is removed, any other file is refused
  --host IP             address to listen on (127.0.0.1)
  --port N              port to listen on, 0 for a free one (3999)
  --config FILE         configuration (${exeDir}/../config/genvm-manager.yaml,
                        where the defaults apply when there is no such file)
  --manifest-path FILE  manifest of executor versions, before the configuration's
  --executors DIR       executors, DIR/NAME/bin/genvm, before the configuration's
                        (${exeDir}/../executor)
  --die-with-parent     shut down when the parent process ends
  --trace FILE          record every transition as one JSON line in FILE
  --help                print this text

There is no authentication: who reaches the listener runs programs as this user.

Keys of the configuration, YAML, all optional; ${exeDir}, ${genvmVersion} and
${ENV[NAME]} stand for what they say in strings:

  executors            directory of executors
  manifest_path        manifest: without one only literal versions resolve
  permits.total        permits of all runs together (free memory and swap)
  permits.per_gib      permits of a GiB of them, N or "N/D" (1)
  permits.sync         cost of a run without modules (4)
  permits.nondet       cost of a run with modules (8)
  execution_retention  life of an ended run, a number with ms, s, m or h (5m)
  max_message_bytes    one message of a client (67108864)
  modules.llm, .web    program and arguments of a module, as a list
  strict_results       true: results are validated (false)
  rewrite_method       false: the key "method" of calldata stays (true)
  log_level            trace, debug, info, warn, error or off (info)

Accepted, and without effect: threads, blocking_threads, log_disable.

Logs are JSON lines on stdout; the line with msg "listening" carries the
address as addr. SIGTERM, SIGINT and SIGHUP end each run and deliver its end
first; a second signal ends the manager at once.
Example:

  agentd manager --socket /tmp/manager.sock --executors /opt/executors
`

// managerFlags is the command line of the manager.
type managerFlags struct {
	socket, host, config, manifest, executors, trace string
	port                                             uint16
	dieWithParent                                    bool
}

// parseManagerFlags reads the command line.
func parseManagerFlags(args []string) (managerFlags, error) {
	var f managerFlags
	flags := flag.NewFlagSet("agentd manager", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&f.socket, "socket", "", "")
	flags.StringVar(&f.host, "host", "127.0.0.1", "")
	flags.StringVar(&f.config, "config", "", "")
	flags.StringVar(&f.manifest, "manifest-path", "", "")
	flags.StringVar(&f.executors, "executors", "", "")
	flags.StringVar(&f.trace, "trace", "", "")
	flags.BoolVar(&f.dieWithParent, "die-with-parent", false, "")
	port := flags.Uint("port", 3999, "")
	if err := flags.Parse(args); err != nil {
		return f, err
	}
	given := map[string]bool{}
	flags.Visit(func(g *flag.Flag) { given[g.Name] = true })
	_, hostErr := netip.ParseAddr(f.host)
	switch {
	case flags.NArg() > 0:
		return f, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case given["socket"] && (given["host"] || given["port"]):
		return f, errors.New("--socket cannot be used with --host or --port: a manager has one listener")
	case given["socket"] && f.socket == "":
		return f, errors.New("--socket needs a path")
	case hostErr != nil:
		// SETTING-11: a name may stand for an address that the whole network reaches.
		return f, fmt.Errorf("--host %q is no IP address", f.host)
	case *port > 65535:
		return f, fmt.Errorf("--port %d is beyond 65535", *port)
	}
	f.port = uint16(*port)
	return f, nil
}

// runManager is the manager's command without its process.
func runManager(ctx context.Context, args, environ []string, stdout, stderr io.Writer, p process) int {
	f, err := parseManagerFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return tell(stdout, stderr, managerUsage)
	}
	if err != nil {
		fmt.Fprintf(stderr, "agentd: %v\nagentd: try agentd manager --help\n", err)
		return exitUsage
	}
	set, err := managerSettings(f, environ)
	if err != nil {
		fmt.Fprintf(stderr, "agentd: %v\n", err)
		return exitUsage // SETTING-1: before anything listens
	}
	level := new(slog.LevelVar)
	level.Set(set.LogLevel)
	log := slog.New(slog.NewJSONHandler(stdout, &slog.HandlerOptions{Level: level}))
	if err := serveManager(ctx, f, set, environ, level, log, p); err != nil {
		log.Error("manager failed", "err", err)
		fmt.Fprintf(stderr, "agentd: %v\n", err)
		return exitFailed
	}
	return exitClean
}

// managerSettings reads the configuration; flags come before it.
func managerSettings(f managerFlags, environ []string) (config.Settings, error) {
	self, err := os.Executable()
	if err != nil {
		return config.Settings{}, fmt.Errorf("cannot find the own program: %w", err)
	}
	source := config.Source{
		Path: config.DefaultPath, Optional: true, ExeDir: filepath.Dir(self), Version: version,
		Environ: func(name string) string { return lookup(environ, name) },
	}
	if f.config != "" {
		source.Path, source.Optional = f.config, false
	}
	set, err := config.Read(source)
	if f.manifest != "" { // SETTING-10: the flag is nearer to whoever starts the program
		set.ManifestPath, set.ManifestAt = f.manifest, ""
	}
	if f.executors != "" {
		set.Executors = f.executors
	}
	if err == nil && set.ManifestAt != "" {
		if err = manager.CheckManifest(set.ManifestPath); err != nil {
			err = fmt.Errorf("%s: %w", set.ManifestAt, err) // SETTING-1: it is the file that is wrong
		}
	}
	return set, err
}

// lookup is the first value of a variable.
func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// serveManager runs the manager until ctx ends, or the parent does where that
// was asked for.
func serveManager(ctx context.Context, f managerFlags, set config.Settings, environ []string, level *slog.LevelVar, log *slog.Logger, p process) error {
	permits, err := set.Permits.Pool(config.MemInfo)
	if err != nil {
		return err
	}
	c := manager.Config{
		Log: log, Level: level, Environ: environ,
		Executors: set.Executors, ManifestPath: set.ManifestPath, Modules: set.Modules,
		Permits: permits, SyncCost: set.Permits.Sync, NondetCost: set.Permits.Nondet,
		Retention: set.Retention, MaxMessageBytes: set.MaxMessageBytes,
		StrictResults: set.StrictResults, KeepMethod: !set.RewriteMethod,
	}
	if c.Retention == 0 {
		c.Retention = -1 // in the library zero is the default
	}
	if p.adoptsOrphans() {
		waits := execution.NewReaper()
		defer waits.Close()
		c.Waits = waits
		log.Info("reaping orphans")
	}
	if f.trace != "" { // SETTING-16
		rec, err := openTrace(f.trace)
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
	if f.dieWithParent {
		watched, stop, err := parentContext(ctx)
		if err != nil {
			return err
		}
		defer stop()
		ctx = watched
	}
	m, err := manager.New(c)
	if err != nil {
		return err
	}
	l, err := f.listen()
	if err != nil {
		return errors.Join(err, m.Shutdown(ctx))
	}
	if _, err := os.Stat(set.Executors); err != nil {
		log.Warn("the directory of executors cannot be read: each run will fail to start", "executors", set.Executors, "err", err)
	}
	// SETTING-14: with port 0 nothing else tells the port.
	log.Info("listening", "addr", l.Addr().String(), "version", version, "permits", permits)
	if err := m.Serve(ctx, l); err != nil {
		return err
	}
	if cause := context.Cause(ctx); errors.Is(cause, errParentEnded) {
		log.Info("parent ended")
	}
	log.Info("stopped")
	return nil
}

// listen opens the one listener.
func (f *managerFlags) listen() (net.Listener, error) {
	if f.socket != "" {
		return listenUnix(f.socket)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(f.host, strconv.Itoa(int(f.port))))
	if err != nil {
		return nil, fmt.Errorf("cannot listen: %w; give another --port, or 0 for a free one", err)
	}
	return l, nil
}
