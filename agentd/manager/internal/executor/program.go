package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"microvms/agentd/calldata"
	"microvms/agentd/execution"
	"microvms/agentd/manager/internal/runs"
)

// maxControlBytes is the longest message that a module's program may send.
const maxControlBytes = 65536

// metricsWait is how long a run's end waits for the report of a program that
// announced none.
const metricsWait = 250 * time.Millisecond

var (
	errModuleEnded  = errors.New("its program ended before it was ready")
	errModuleSilent = errors.New("its program did not say in time that it is ready")
)

// program is a running module program.
type program struct {
	modules *Modules
	proc    *execution.Process
	control *net.UnixConn
	ready   chan struct{} // closed when it said so
	ended   chan struct{} // closed when its status was collected

	readyOnce sync.Once
	announced bool // it said with ready that it reports each run; set before ready is closed
	mu        sync.Mutex
	reports   map[runs.ID]*moduleReport // of the runs that use it
}

// moduleReport is what a program told of a run.
type moduleReport struct {
	metrics json.RawMessage
	told    chan struct{} // closed once metrics is set
}

// launch starts a program and waits until it is ready.
func (m *Modules) launch(ctx context.Context, x *module, argv []string, config []byte) (*program, error) {
	p := &program{modules: m, ready: make(chan struct{}), ended: make(chan struct{}), reports: map[runs.ID]*moduleReport{}}
	if err := p.spawn(argv, config); err != nil {
		return nil, err
	}
	m.wg.Go(p.listen)
	m.wg.Go(func() {
		if err := p.proc.Exited(context.Background()); err != nil {
			m.cfg.Log.Error("cannot wait for a module", "module", string(x.name), "err", err)
		}
		p.collect()
		m.died(x, p)
	})
	late := make(chan struct{})
	timer := m.cfg.Clock.AfterFunc(m.cfg.ReadyWait, func() { close(late) })
	defer timer.Stop()
	var err error
	select {
	case <-p.ready:
		return p, nil
	case <-p.ended:
		return nil, errModuleEnded // EXECUTOR-44: the operator learns it now, and not the first run
	case <-late:
		err = errModuleSilent
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.end()
	return nil, err
}

// spawn creates the process with its standard input and control socket.
func (p *program) spawn(argv []string, config []byte) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot make the control socket: %w", err)
	}
	mine, theirs := os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control")
	defer mine.Close() // FileConn has a descriptor of its own
	defer theirs.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		return fmt.Errorf("cannot make the control socket: %w", err)
	}
	p.control = conn.(*net.UnixConn)
	read, write, err := os.Pipe()
	if err != nil {
		conn.Close()
		return fmt.Errorf("cannot make the standard input: %w", err)
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		conn.Close()
		_ = write.Close() // nothing was written
		return err
	}
	defer null.Close()
	m := p.modules
	p.proc, err = m.cfg.Waits.Start(argv[0], append(argv[:len(argv):len(argv)], "--control-fd=3"), &syscall.ProcAttr{
		Env: m.cfg.Environ,
		// EXECUTOR-43: its output is not the manager's log; what it has to say to people goes to standard error.
		Files: []uintptr{read.Fd(), null.Fd(), os.Stderr.Fd(), theirs.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		conn.Close()
		_ = write.Close() // nothing was written
		return err
	}
	m.wg.Go(func() {
		defer write.Close()
		_, _ = write.Write(config) // a program that does not read it ends the write by its end
	})
	return nil
}

// listen takes the program's messages to the end of the control socket.
func (p *program) listen() {
	buf := make([]byte, maxControlBytes)
	for {
		n, _, flags, _, err := p.control.ReadMsgUnix(buf, nil)
		if err != nil || n == 0 {
			return
		}
		var msg struct {
			Ready   bool
			Run     *runs.ID
			Metrics json.RawMessage
		}
		if flags&unix.MSG_TRUNC != 0 || json.Unmarshal(buf[:n], &msg) != nil {
			p.modules.cfg.Log.Warn("a module sent a message that is none", "bytes", n)
			continue
		}
		if msg.Ready {
			p.readyOnce.Do(func() {
				p.announced = string(msg.Metrics) == "true"
				close(p.ready)
			})
		}
		if msg.Run != nil {
			p.told(*msg.Run, msg.Metrics)
		}
	}
}

// told enters a report. Only the first one of a run in use counts.
func (p *program) told(id runs.ID, metrics json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.reports[id]
	if !ok || r.metrics != nil {
		return
	}
	r.metrics = metrics
	if metrics == nil {
		r.metrics = json.RawMessage("{}")
	}
	close(r.told)
}

// connect sends the program one end of a socket pair and returns the other.
func (p *program) connect(id runs.ID, about *hostData) (int, error) {
	message, err := json.Marshal(struct {
		Run         runs.ID         `json:"run"`
		NodeAddress json.RawMessage `json:"node_address"`
		TxID        json.RawMessage `json:"tx_id"`
	}{id, about.NodeAddress, about.TxID})
	if err != nil {
		return -1, err
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	defer unix.Close(fds[1]) // the program's copy is under way in the message
	p.mu.Lock()
	p.reports[id] = &moduleReport{told: make(chan struct{})}
	p.mu.Unlock()
	if err := p.send(message, unix.UnixRights(fds[1])); err != nil {
		unix.Close(fds[0])
		return -1, err
	}
	return fds[0], nil
}

// send sends one message with descriptors, or fails.
//
// EXECUTOR-48: a program that does not read must not hold up the spawns of
// others.
func (p *program) send(message, rights []byte) error {
	raw, err := p.control.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		for {
			sendErr = unix.Sendmsg(int(fd), message, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if sendErr != unix.EINTR {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return sendErr
}

// metrics waits for the report of a run; nil: none came.
func (p *program) metrics(ctx context.Context, id runs.ID) json.RawMessage {
	p.mu.Lock()
	r, ok := p.reports[id]
	p.mu.Unlock()
	if !ok {
		return nil
	}
	late := make(chan struct{})
	if !p.announced {
		// EXECUTOR-49: nothing says that a report is under way, and each run's end would wait for it.
		timer := p.modules.cfg.Clock.AfterFunc(metricsWait, func() { close(late) })
		defer timer.Stop()
	}
	select {
	case <-r.told:
	case <-p.ended:
	case <-late:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.metrics
}

// forget drops what was told of a run.
func (p *program) forget(id runs.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.reports, id)
}

// gone says whether the program has ended.
func (p *program) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// end tells the program to exit, kills its group when it does not, and waits.
func (p *program) end() {
	_ = p.control.CloseWrite() // both ends see the end; messages of the program still arrive
	late := make(chan struct{})
	timer := p.modules.cfg.Clock.AfterFunc(p.modules.cfg.QuitWait, func() { close(late) })
	defer timer.Stop()
	select {
	case <-p.ended:
		return
	case <-late:
	}
	p.kill()
	<-p.ended
}

// collect ends what is left of the group and gives the leader's pid back. The
// lock keeps kill from signalling a stranger that got the pid.
func (p *program) collect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = syscall.Kill(-p.proc.Pid, syscall.SIGKILL)
	p.proc.Collect()
	p.proc.Release()
	p.control.Close()
	close(p.ended)
}

// kill signals the program's group while its leader is not collected.
func (p *program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.gone() {
		_ = syscall.Kill(-p.proc.Pid, syscall.SIGKILL)
	}
}

// encodeMetrics writes the modules' reports as calldata. What is no JSON object
// counts as an empty one.
func encodeMetrics(all map[string]json.RawMessage) []byte {
	encoded := map[string]calldata.Raw{}
	for name, text := range all {
		raw, err := calldata.FromJSON(text)
		var entries map[string]calldata.Raw
		if err == nil {
			err = calldata.Unmarshal(raw, &entries)
		}
		if err != nil {
			raw = calldata.Raw{6} // the empty map
		}
		encoded[name] = raw
	}
	out, err := calldata.Marshal(encoded)
	if err != nil {
		panic("executor: internal error: cannot encode a map of valid values: " + err.Error())
	}
	return out
}
