package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"microvms/agentd/execution"
	"microvms/agentd/manager/internal/runs"
	"microvms/agentd/trace"
)

// ModuleType names a module.
type ModuleType string

// The modules.
const (
	LLM ModuleType = "llm"
	Web ModuleType = "web"
)

// ModuleState is what /status says of a module.
type ModuleState string

// The states of a module. One that is starting is still stopped.
const (
	ModuleStopped  ModuleState = "stopped"
	ModuleRunning  ModuleState = "running"
	ModuleStopping ModuleState = "stopping"
)

// Errors that callers branch on.
var (
	// ErrModulesMissing is the refusal of a run that needs modules; clients
	// know it by this text.
	ErrModulesMissing = errors.New("modules are required but not running")
	// ErrModuleUnknown is returned for a type that is neither LLM nor Web.
	ErrModuleUnknown = errors.New("unknown module: use Llm or Web")
	// ErrModuleUnset is returned by Start for a module without a program.
	ErrModuleUnset = errors.New("no program is configured for this module: set modules in the configuration")
	// ErrModuleBusy is returned by Start while the module runs, starts or stops.
	ErrModuleBusy = errors.New("module runs already, or is starting or stopping")
)

// The waits for a module's program.
const (
	DefaultReadyWait = 30 * time.Second // from its start until it says that it is ready
	DefaultQuitWait  = 5 * time.Second  // from the end of its control socket until it is killed
)

// ModulesConfig is what Modules is given.
type ModulesConfig struct {
	Programs  map[string][]string // argument lists by "llm" and "web"
	Environ   []string            // of the programs
	Clock     trace.Clock         // nil: the system's
	Log       *slog.Logger        // nil: slog.Default()
	Waits     *execution.Waits    // who waits for children; nil: an owner of its own
	ReadyWait time.Duration       // 0: DefaultReadyWait
	QuitWait  time.Duration       // 0: DefaultQuitWait
}

// Modules are the programs that executors call for language models and the
// web. The manager ships none: it starts the configured ones when it is asked
// to, and gives each run that needs them a connection to each. All methods are
// safe for concurrent use. A nil *Modules has none.
//
// The contract of a module's program: its standard input is the configuration
// that it was started with, as JSON, then the end. Descriptor 3, which the last
// argument --control-fd=3 names, is a socket of type SOCK_SEQPACKET. It sends the
// message {"ready":true} there when it takes connections, with "metrics":true when
// it is going to report each run (EXECUTOR-49). For each run it
// receives a message {"run":ID,"node_address":…,"tx_id":…} with one descriptor, a
// stream socket whose other end is the executor's. When that has ended and the
// run is accounted for it sends {"run":ID,"metrics":{…}}. The end of the control
// socket tells it to exit.
type Modules struct {
	cfg ModulesConfig

	mu      sync.Mutex
	modules map[ModuleType]*module
	closed  bool
	wg      sync.WaitGroup
}

// module is one of them.
type module struct {
	name    ModuleType
	state   ModuleState
	busy    bool // a start is under way
	program *program
	holders int           // runs that use it
	free    chan struct{} // closed when stopping and holders is 0
	stopped chan struct{} // closed when the stop is complete; nil: none is under way
}

// NewModules returns stopped modules. Release them with Close.
func NewModules(c ModulesConfig) *Modules {
	if c.Clock == nil {
		c.Clock = trace.System{}
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Waits == nil {
		c.Waits = execution.NewWaits()
	}
	if c.ReadyWait == 0 {
		c.ReadyWait = DefaultReadyWait
	}
	if c.QuitWait == 0 {
		c.QuitWait = DefaultQuitWait
	}
	return &Modules{cfg: c, modules: map[ModuleType]*module{
		LLM: {name: LLM, state: ModuleStopped}, Web: {name: Web, state: ModuleStopped},
	}}
}

// State is the module's state; unknown modules are stopped.
func (m *Modules) State(t ModuleType) ModuleState {
	if m == nil {
		return ModuleStopped
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if x, ok := m.modules[t]; ok {
		return x.state
	}
	return ModuleStopped
}

// missing is ErrModulesMissing unless both modules run.
func (m *Modules) missing() error {
	if m.State(LLM) != ModuleRunning || m.State(Web) != ModuleRunning {
		return ErrModulesMissing // EXECUTOR-12
	}
	return nil
}

// Start runs the module's program with config, a JSON value, as its standard
// input, and returns once the program said that it is ready. It returns
// ErrModuleUnknown, ErrModuleUnset, ErrModuleBusy, or why the program did not
// become ready; then it is stopped again.
func (m *Modules) Start(ctx context.Context, t ModuleType, config []byte) error {
	x, argv, err := m.claim(t)
	if err != nil {
		return err
	}
	defer m.wg.Done()
	p, err := m.launch(ctx, x, argv, config)
	if err != nil {
		err = fmt.Errorf("cannot start module %q: %w", t, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x.busy = false
	switch {
	case err != nil:
		return err
	case p.gone():
		return fmt.Errorf("cannot start module %q: %w", t, errModuleEnded)
	}
	x.program, x.state = p, ModuleRunning
	m.cfg.Log.Info("module started", "module", string(t))
	if m.closed {
		m.stopLocked(x)
	}
	return nil
}

// claim reserves the start of a module, and its share of those that Close waits
// for.
func (m *Modules) claim(t ModuleType) (*module, []string, error) {
	if m == nil {
		return nil, nil, ErrModuleUnset
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	x, ok := m.modules[t]
	if !ok {
		return nil, nil, ErrModuleUnknown
	}
	argv := m.cfg.Programs[string(t)]
	switch {
	case len(argv) == 0:
		return nil, nil, ErrModuleUnset // EXECUTOR-44
	case m.closed || x.busy || x.state != ModuleStopped:
		return nil, nil, ErrModuleBusy
	}
	x.busy = true
	m.wg.Add(1)
	return x, argv, nil
}

// Stop ends the module once no run uses it any more, and says whether it ran.
// From its call on no run gets the module. When ctx ends first the stop goes
// on, and ctx's error is returned.
func (m *Modules) Stop(ctx context.Context, t ModuleType) (ran bool, err error) {
	if m == nil {
		return false, nil
	}
	m.mu.Lock()
	x, ok := m.modules[t]
	if !ok {
		m.mu.Unlock()
		return false, ErrModuleUnknown
	}
	if x.state == ModuleStopped {
		m.mu.Unlock()
		return false, nil
	}
	if x.state == ModuleRunning {
		m.stopLocked(x)
	}
	stopped := x.stopped
	m.mu.Unlock()
	select {
	case <-stopped:
		return true, nil
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
}

// stopLocked begins a stop, which another goroutine completes.
func (m *Modules) stopLocked(x *module) {
	x.state, x.free, x.stopped = ModuleStopping, make(chan struct{}), make(chan struct{})
	if x.holders == 0 {
		close(x.free)
	}
	p, free, stopped := x.program, x.free, x.stopped
	m.wg.Go(func() {
		// EXECUTOR-46: runs that have the module keep it to their end; who
		// cannot wait cancels them.
		select {
		case <-free:
		case <-p.ended:
		}
		p.end()
		m.mu.Lock()
		defer m.mu.Unlock()
		x.program, x.state = nil, ModuleStopped
		m.cfg.Log.Info("module stopped", "module", string(x.name))
		close(stopped)
	})
}

// Close stops the modules and waits for them, or for ctx. The runs must have
// ended.
func (m *Modules) Close(ctx context.Context) error {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	m.closed = true
	for _, x := range m.modules {
		if x.state == ModuleRunning {
			m.stopLocked(x)
		}
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot stop the modules: %w", context.Cause(ctx))
	}
}

// hold is the use of a module by a run.
type hold struct {
	modules *Modules
	module  *module
	program *program
	run     runs.ID
	once    sync.Once
}

// connect gives a run a connection to the module: it returns the executor's
// end of a socket pair whose other end went to the program. It does not block.
func (m *Modules) connect(t ModuleType, id runs.ID, about *hostData) (*hold, int, error) {
	if m == nil {
		return nil, -1, ErrModulesMissing
	}
	m.mu.Lock()
	x := m.modules[t]
	if x.state != ModuleRunning {
		m.mu.Unlock()
		return nil, -1, ErrModulesMissing // it stopped since the run was prepared
	}
	x.holders++
	h := &hold{modules: m, module: x, program: x.program, run: id}
	m.mu.Unlock()
	fd, err := h.program.connect(id, about) // EXECUTOR-45: no byte of a module passes through here
	if err != nil {
		h.release()
		return nil, -1, fmt.Errorf("cannot connect the run to module %q: %w", t, err)
	}
	return h, fd, nil
}

// release ends the use.
func (h *hold) release() {
	h.once.Do(func() {
		h.program.forget(h.run)
		m := h.modules
		m.mu.Lock()
		defer m.mu.Unlock()
		x := h.module
		x.holders--
		if x.state == ModuleStopping && x.holders == 0 {
			close(x.free)
		}
	})
}

// died enters that a program ended by itself.
func (m *Modules) died(x *module, p *program) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if x.program == p && x.state == ModuleRunning {
		x.program, x.state = nil, ModuleStopped // EXECUTOR-47
		m.cfg.Log.Error("module ended by itself", "module", string(x.name))
	}
}

// metrics waits, until ctx ends, for what the modules tell of a run, and
// returns it as encoded calldata: a map by module. A module that tells nothing
// is an empty map.
func metrics(ctx context.Context, holds []*hold) []byte {
	all := map[string]json.RawMessage{string(LLM): []byte("{}"), string(Web): []byte("{}")}
	for _, h := range holds {
		if text := h.program.metrics(ctx, h.run); text != nil {
			all[string(h.module.name)] = text
		}
	}
	return encodeMetrics(all)
}
