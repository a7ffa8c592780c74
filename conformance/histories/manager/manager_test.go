package manager

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"microvms/conformance/process"
)

// Where the commands were built, and the directory of executors.
var agentd, executors string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "histories-manager-")
	if err == nil {
		err = build(dir)
	}
	code := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, "histories:", err)
	} else {
		code = m.Run()
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// build builds the manager and the demonstration executor.
func build(dir string) (err error) {
	if agentd, err = process.Build(context.Background(), dir, "microvms/agentd/cmd/agentd"); err != nil {
		return err
	}
	program, err := process.Build(context.Background(), dir, "microvms/conformance/cmd/executor")
	if err != nil {
		return err
	}
	executors = filepath.Join(dir, "executors")
	home := filepath.Join(executors, Demonstration, "bin")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	return os.Rename(program, filepath.Join(home, "genvm"))
}

const configuration = "permits: {total: 2, sync: 1, nondet: 1}\nexecution_retention: 24h\nlog_level: info\n"

// stopLimit bounds a manager's end.
const stopLimit = 30 * time.Second

// startBinary starts the manager as a process of its own.
func startBinary(_ context.Context, tcp bool) (_ *Manager, err error) {
	dir, err := os.MkdirTemp("", "manager")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte(configuration), 0o600); err != nil {
		return nil, err
	}
	args := []string{"manager", "--config", config, "--executors", executors}
	m := &Manager{Network: "unix"}
	if tcp {
		m.Network, args = "tcp", append(args, "--port", "0")
	} else {
		args = append(args, "--socket", filepath.Join(dir, "s"))
	}
	cmd := exec.Command(agentd, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	log := bufio.NewReader(out)
	if m.Address, err = listening(log); err != nil {
		cmd.Process.Kill()
		return nil, errors.Join(err, cmd.Wait(), errors.New(stderr.String()))
	}
	m.Kill = func() error { return end(cmd, log, dir, syscall.SIGKILL) }
	m.Stop = func() error { return end(cmd, log, dir, syscall.SIGTERM) }
	return m, nil
}

// end ends a manager and waits for it.
func end(cmd *exec.Cmd, log io.Reader, dir string, signal syscall.Signal) error {
	defer os.RemoveAll(dir)
	if err := cmd.Process.Signal(signal); err != nil {
		return err
	}
	kill := time.AfterFunc(stopLimit, func() { cmd.Process.Kill() })
	defer kill.Stop()
	io.Copy(io.Discard, log)
	if err := cmd.Wait(); err != nil && signal == syscall.SIGTERM {
		return fmt.Errorf("the manager did not end well: %w", err)
	}
	return nil
}

// listening reads a manager's log up to the line that says where it listens.
func listening(log *bufio.Reader) (string, error) {
	for {
		line, err := log.ReadBytes('\n')
		var entry struct{ Msg, Addr string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "listening" {
			return entry.Addr, nil
		}
		if err != nil {
			return "", fmt.Errorf("the manager's log ended before it listened: %w", err)
		}
	}
}

// count returns how many histories to judge: HISTORIES overrides it for a soak.
func count(t *testing.T, standard int) int {
	t.Helper()
	text := os.Getenv("HISTORIES")
	if text == "" {
		return standard
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("HISTORIES is %q, want a count", text)
	}
	return n
}

// TestManagerHistoriesAreLinearizable races connections to one manager after
// another.
func TestManagerHistoriesAreLinearizable(t *testing.T) {
	r, err := Drive(t.Context(), Config{
		Histories: count(t, 500), Seed: 1, Workers: 2 * runtime.GOMAXPROCS(0), Start: startBinary, FailDir: "../../failures",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.Write(); err != nil {
		t.Error(err)
	}
	for _, f := range r.Failures {
		t.Error(f)
	}
	if r.Undecided > 0 {
		t.Errorf("%d histories were not decided", r.Undecided)
	}
	if r.Operations < 50*r.Histories || r.Overlapping < 20*r.Histories || r.Open < r.Histories {
		t.Errorf("%d operations, %d overlapping, %d open: a history has at least 50, of which 20 overlap and 1 is open", r.Operations, r.Overlapping, r.Open)
	}
}
