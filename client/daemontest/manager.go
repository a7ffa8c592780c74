package daemontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
)

// Executor is the name of the one executor that a Manager has: a demonstration
// program that does what its extra arguments say.
const Executor = "demo"

// Manager is a running `agentd manager`.
type Manager struct {
	Socket  string // path of its unix socket
	dir     string
	cmd     *exec.Cmd
	drained chan struct{}
}

// executors is a directory with the demonstration executor. It lies beside the
// daemon's binary and is removed with it.
var executors = sync.OnceValues(func() (string, error) {
	bin, err := build()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(bin), "executors")
	out, err := exec.Command("go", "build", "-o", filepath.Join(dir, Executor, "bin", "genvm"), "microvms/conformance/cmd/executor").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot build the executor: %w\n%s", err, out)
	}
	return dir, nil
})

// StartManager runs a manager with 8 permits behind a unix socket, and waits
// until it listens.
func StartManager() (*Manager, error) {
	bin, err := build()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "manager")
	if err != nil {
		return nil, err
	}
	m := &Manager{Socket: filepath.Join(dir, "s"), dir: dir}
	if err := m.start(bin); err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return m, nil
}

// start starts the process; what it was before is gone.
func (m *Manager) start(bin string) error {
	programs, err := executors()
	if err != nil {
		return err
	}
	config := filepath.Join(m.dir, "config.yaml")
	if err := os.WriteFile(config, []byte("permits: {total: 8}\n"), 0o600); err != nil {
		return err
	}
	m.cmd = exec.Command(bin, "manager", "--socket", m.Socket, "--config", config, "--executors", programs)
	m.cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	m.cmd.Stderr = os.Stderr
	stdout, err := m.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	listening := false
	lines := bufio.NewScanner(stdout)
	for !listening && lines.Scan() {
		var line struct{ Msg string }
		listening = json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening"
	}
	m.drained = make(chan struct{})
	go func() {
		defer close(m.drained)
		_, _ = io.Copy(io.Discard, stdout)
	}()
	if !listening {
		_ = m.end(syscall.SIGKILL) // it says that it was killed
		return fmt.Errorf("the manager ended before it listened")
	}
	return nil
}

// end signals the process and waits for it.
func (m *Manager) end(signal os.Signal) error {
	_ = m.cmd.Process.Signal(signal) // refused only when it ended already, which Wait tells
	<-m.drained
	return m.cmd.Wait()
}

// Restart ends the manager by SIGKILL, its executors with it, and starts another
// one at the same socket.
func (m *Manager) Restart() error {
	_ = m.end(syscall.SIGKILL) // it says that it was killed
	bin, err := build()
	if err != nil {
		return err
	}
	return m.start(bin)
}

// Kill ends the manager by SIGKILL, its executors with it. Stop removes what it
// left.
func (m *Manager) Kill() {
	_ = m.end(syscall.SIGKILL) // it says that it was killed
}

// Stop ends the manager in order, and its runs.
func (m *Manager) Stop() error {
	defer os.RemoveAll(m.dir)
	return m.end(syscall.SIGTERM)
}
