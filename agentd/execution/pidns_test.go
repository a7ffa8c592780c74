package execution

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// namespaceCases run as PID 1 of a PID namespace with a proc of its own.
var namespaceCases = map[string]func() error{
	"orphans":           func() error { return stormOfOrphans(NewReaper(), 5000) },
	"orphans by pid":    func() error { w := NewReaper(); w.noPidfd = true; return stormOfOrphans(w, 300) },
	"recycled":          func() error { return recycledGroup(false) },
	"recycled by start": func() error { return recycledGroup(true) },
}

// inNamespace runs a case in a fresh PID namespace.
func inNamespace(t *testing.T, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root may make a PID namespace")
	}
	cmd := exec.Command(testBinary)
	cmd.Env = []string{"EXECUTION_HELPER=pidns", "EXECUTION_CASE=" + name, "PATH=/usr/local/bin:/bin:/usr/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Skipf("no PID namespace here: %v", err)
	}
	err := cmd.Wait()
	switch code := cmd.ProcessState.ExitCode(); code {
	case 0:
	case skipCode:
		t.Skip(out.String())
	default:
		t.Fatalf("%v: %s", err, out.String())
	}
}

const skipCode = 77

// insideNamespace is the helper's side of inNamespace.
func insideNamespace(name string) int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Println("cannot make the mounts private:", err)
		return skipCode
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		fmt.Println("cannot mount proc:", err)
		return skipCode
	}
	if err := namespaceCases[name](); err != nil {
		fmt.Println(err)
		if err == errNoSmallPidMax {
			return skipCode
		}
		return 1
	}
	return 0
}

// PID 1 reaps orphans and loses no status of its own children: 5,000 commands,
// each with its own exit code, beside a storm of orphans.
func TestReaperStealsNothing(t *testing.T) {
	for _, req := range []string{"WAIT-1", "WAIT-2"} {
		t.Attr("requirement", req)
	}
	inNamespace(t, "orphans")
}

// The same where the kernel has no pidfd.
func TestReaperStealsNothingWithoutPidfd(t *testing.T) {
	t.Attr("requirement", "WAIT-2")
	inNamespace(t, "orphans by pid")
}

func stormOfOrphans(w *Waits, commands int) error {
	r := New(Config{Waits: w, Log: slog.New(slog.DiscardHandler)})
	const parallel, storms = 16, 3
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for s := range storms {
		wg.Go(func() { storm(r, s, stop) })
	}
	errs := make(chan error, parallel)
	var work sync.WaitGroup
	for p := range parallel {
		work.Go(func() {
			for i := p; i < commands; i += parallel {
				if err := exactly(r, i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	work.Wait()
	close(stop)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if err := r.Close(context.Background()); err != nil {
		return err
	}
	return noZombies(w)
}

// exactly runs one command and checks its own exit code.
func exactly(r *Registry, i int) error {
	want := i % 200
	cmd := &Command{Path: "/bin/true", Args: []string{"true"}}
	if i%50 == 0 { // a shell costs more than a fork of true: now and then
		cmd = sh("exit " + strconv.Itoa(want))
	} else {
		want = 0
	}
	e, _, err := r.Start(context.Background(), key(strconv.Itoa(i)), given(cmd))
	if err != nil {
		return err
	}
	<-e.Done()
	if got := status(*e.Poll().Result); got != "exit "+strconv.Itoa(want) {
		return fmt.Errorf("command %d ended with %q, want exit %d", i, got, want)
	}
	_, err = e.Ack()
	return err
}

// storm makes orphans: grandchildren whose parent is gone before they end.
func storm(r *Registry, s int, stop chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		cmd := sh("for i in 1 2 3 4 5 6 7 8; do (true & true & true &) & done")
		if e, _, err := r.Start(context.Background(), key(fmt.Sprintf("storm %d.%d", s, i)), given(cmd)); err == nil {
			<-e.Done()
		}
	}
}

// noZombies waits until every orphan was reaped.
func noZombies(w *Waits) error {
	table := procFS{"/proc"}
	for range 10000 {
		pids, err := table.pids()
		if err != nil {
			return err
		}
		if len(pids) == 1 {
			w.Close()
			return nil
		}
		w.orphans.kick()
	}
	return fmt.Errorf("orphans are left as zombies")
}

// A group whose leader was collected and whose number was then given to a
// stranger is neither listed nor signalled, with a real kernel that has few
// pids to give.
func TestRecycledGroupIsNotSignalled(t *testing.T) {
	t.Attr("requirement", "KILL-9")
	t.Attr("requirement", "KILL-12")
	for _, name := range []string{"recycled", "recycled by start"} {
		t.Run(name, func(t *testing.T) { inNamespace(t, name) })
	}
}

var errNoSmallPidMax = fmt.Errorf("the kernel has no pid_max of a namespace's own")

func recycledGroup(noPidfd bool) error {
	const few = 400
	if !ownPidMax() || os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(few)), 0) != nil {
		return errNoSmallPidMax
	}
	w := NewReaper()
	w.noPidfd = noPidfd
	r := New(Config{Waits: w, Log: slog.New(slog.DiscardHandler)})
	var e *Exec
	for i := 0; e == nil || e.group.id <= 300; i++ { // the kernel gives lower numbers out once only
		var err error
		e, _, err = r.Start(context.Background(), key(fmt.Sprint("old", i)), given(sh("exit 0")))
		if err != nil {
			return err
		}
		<-e.Done()
	}
	// As if the end of the group had not been noticed: the record still holds
	// the number and looks at it again.
	e.group.mu.Lock()
	e.group.gone = false
	e.group.mu.Unlock()
	for i := range 4 * few {
		cmd := sh("exec sleep 1000")
		stranger, _, err := r.Start(context.Background(), key(strconv.Itoa(i)), given(cmd))
		if err != nil {
			return err
		}
		if stranger.group.id != e.group.id {
			stranger.signalGroup(syscall.SIGKILL, byKill)
			<-stranger.Done()
			continue
		}
		if pids := e.Group().Pids; len(pids) != 0 {
			return fmt.Errorf("the old exec lists the stranger: %v", pids)
		}
		if signalled, err := e.Kill(context.Background()); signalled || err != nil {
			return fmt.Errorf("a kill of the old exec = %v, %v; want nobody signalled", signalled, err)
		}
		if s := stranger.Poll(); s.Phase != PhaseRunning || len(stranger.Group().Pids) != 1 {
			return fmt.Errorf("the stranger was hit: %v", s.Phase)
		}
		stranger.signalGroup(syscall.SIGKILL, byKill)
		<-stranger.Done()
		return r.Close(context.Background())
	}
	return fmt.Errorf("the number %d was not given out again", e.group.id)
}

// ownPidMax says whether a PID namespace has a pid_max of its own (Linux
// 6.14): before, the number is the whole machine's and not a test's to change.
func ownPidMax() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 6 || major == 6 && minor >= 14
}
