package executor

import (
	"context"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/agentd/execution"
	"microvms/agentd/manager/internal/manifest"
	"microvms/agentd/manager/internal/runs"
)

// The descriptors of an executor, by number.
const (
	logFD = iota + 3
	hostFD
	llmFD
	webFD
)

// process is one executor, of a run or nested in one, with the manager's ends
// of its channels.
type process struct {
	launcher *Launcher
	id       runs.ID
	request  *msp.RunRequest
	data     *msp.ExecutionData
	about    *hostData // with modules; nil: none are needed
	depth    int       // how many runs this one is nested in

	name    string
	version manifest.Version
	command *execution.Command
	input   []byte

	log   *logPipe
	host  *hostOne
	holds []*hold // modules in use
}

// build resolves the executor and makes its command and input.
func (p *process) build() (err error) {
	l, req := p.launcher, p.request
	if p.name, p.version, err = l.resolve(selector(req), req.Timestamp); err != nil {
		return err
	}
	if p.input, err = calldata.Marshal(p.data); err != nil {
		return fmt.Errorf("cannot write the execution data: %w", err)
	}
	log := l.cfg.Log.With("genvm_id", uint64(p.id))
	p.log = &logPipe{log: executorLog{mode: req.DebugMode, log: log}}
	p.host = &hostOne{
		strict: l.cfg.StrictResults || p.depth > 0, hooked: req.HookCalls, limit: l.cfg.MaxResultBytes,
		nested: p.runNested, log: log, done: make(chan struct{}),
	}
	p.host.ctx, p.host.cancel = context.WithCancel(l.base)
	program := l.program(p.name)
	p.command = &execution.Command{
		Path: program,
		Args: append([]string{program}, p.arguments()...),
		// EXECUTOR-19: as it is, because executors read their own settings there.
		Env:           l.cfg.Environ,
		Stdin:         true,
		DieWithParent: true,
		Capture:       captureOf(req.DebugMode),
		// EXECUTOR-18: opened at the spawn, since the run may wait long for its permits.
		// EXECUTOR-16: these and nothing else reach the child; their order is that of their numbers.
		Descriptors: []execution.Descriptor{{Open: p.log.open}, {Open: p.host.open}},
	}
	if p.about != nil {
		p.command.Descriptors = append(p.command.Descriptors,
			execution.Descriptor{Open: func() (int, error) { return p.openModule(LLM) }},
			execution.Descriptor{Open: func() (int, error) { return p.openModule(Web) }})
	}
	return nil
}

// arguments are those after the program, in the one order that executors read.
//
// EXECUTOR-14: the order of the two hosts gives them their numbers.
func (p *process) arguments() []string {
	req := p.request
	args := []string{fmt.Sprintf("--log-fd=%d", logFD), "run"}
	args = append(args, req.ExtraArgs...)
	if req.IsSync {
		args = append(args, "--sync")
	}
	args = append(args, "--host", req.Host, "--permissions", req.Permissions,
		"--genvm-id="+strconv.FormatUint(uint64(p.id), 10), "--debug-mode", string(req.DebugMode),
		"--host", fmt.Sprintf("fd://%d", hostFD))
	if p.about != nil {
		args = append(args, fmt.Sprintf("--module-llm=fd://%d", llmFD), fmt.Sprintf("--module-web=fd://%d", webFD))
	}
	return args
}

// forget lets go of what only the execution data needed: a run may last for
// hours, and its code be of many megabytes.
func (p *process) forget() {
	p.input = nil
	p.data = &msp.ExecutionData{RemainingRecursion: p.data.RemainingRecursion}
	kept := *p.request
	kept.Calldata, kept.Code, kept.LeaderNondetResults, kept.MessageFeeAllocation, kept.ExtraArgs = nil, nil, nil, nil, nil
	p.request = &kept
}

// openModule hands a socket to a module and returns its other end.
func (p *process) openModule(t ModuleType) (int, error) {
	h, fd, err := p.launcher.cfg.Modules.connect(t, p.id, p.about)
	if err == nil {
		p.holds = append(p.holds, h)
	}
	return fd, err
}

// spawned starts the serving of the channels, once there is somebody to serve.
func (p *process) spawned(ok bool) {
	if !ok {
		return // close sees to what was opened
	}
	p.log.claim()
	p.launcher.wg.Add(2)
	go func() {
		defer p.launcher.wg.Done()
		p.log.read(p.launcher.base)
	}()
	go func() {
		defer p.launcher.wg.Done()
		p.host.serve()
	}()
}

// finish waits for the ends of the channels, until ctx ends, and returns what
// they brought.
func (p *process) finish(ctx context.Context) runs.Report {
	// EXECUTOR-40: a nested run has nobody left who would take its reply.
	p.host.cancel()
	// EXECUTOR-29: lines and results that are still under way count, but only
	// as long as output does.
	for _, done := range []<-chan struct{}{p.log.done, p.host.done} {
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
	r := runs.Report{
		Consumed: p.host.taken(), Log: p.log.log.seal(),
		VersionMajor: p.version.Major, VersionMinor: p.version.Minor,
	}
	if p.about != nil {
		r.Metrics = metrics(ctx, p.holds)
	}
	return r
}

// close releases everything but the log pipe, which is read to its end: who
// escaped from the group and holds it must not be ended by it.
func (p *process) close() {
	p.host.close()
	p.log.closeUnread()
	for _, h := range p.holds {
		h.release()
	}
}

// pair makes two connected sockets, both close-on-exec; the first one is for
// the manager's own poller.
func pair() (mine, theirs int, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return -1, -1, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	return fds[0], fds[1], nil
}
