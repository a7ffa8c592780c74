package hostile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"microvms/agentd/api"
)

// stubbornProcesses is E6. A process that has left the group cannot be reached
// (wire facts, section 13); everything else must be gone within the grace.
func stubbornProcesses() Row {
	return Row{
		ID: "E6", Name: "a fork bomb, runaways, children that ignore, stop or outlive",
		Expect:       "kill ends the group within its grace; survivors are listed; the daemon answers meanwhile",
		Requirements: []string{"KILL-1", "KILL-2", "KILL-3", "KILL-5", "KILL-6", "KILL-12", "EXEC-19", "EXEC-20", "PROC-1", "PROC-2", "HEALTH-6"},
		Together:     true,
		Cases: []Case{
			{Name: "a fork bomb under a process limit", Do: forkBomb},
			{Name: "TERM ignored", Do: stubborn("trap '' TERM; echo ready; while :; do sleep 300; done", 9)},
			{Name: "TERM ignored by a member", Do: stubborn("(trap '' TERM; echo ready; while :; do sleep 300; done) & wait", 15)},
			{Name: "stopped", Do: stubborn(stopsItself, 9)},
			{Name: "nohup in the background", Do: nohup},
			{Name: "a new session", Do: newSession},
			{Name: "in an uninterruptible wait", Do: func(context.Context, *probe) error {
				return skipped("no process can be brought into a wait of the kernel that a signal does not end without a device that hangs")
			}},
		},
	}
}

// stopsItself stops its shell and has a member say so once it stands still.
const stopsItself = "(until grep -q '^State:.T' /proc/$$/status; do :; done; echo stopped) & kill -STOP $$; sleep 300"

// stubborn kills a script that resists once it has written a line, and expects
// its leader to have ended by the signal.
func stubborn(text string, signal int32) func(context.Context, *probe) error {
	return func(ctx context.Context, p *probe) error {
		id := p.id()
		if err := p.start(ctx, id, script(text)); err != nil {
			return err
		}
		if _, err := p.output(ctx, id); err != nil {
			return err
		}
		began := time.Now()
		killed, err := p.kill(ctx, id)
		if err != nil {
			return err
		}
		p.note("%.40q was killed in %.1f s", text, time.Since(began).Seconds())
		if !killed {
			return errors.New("the kill says that there was nothing to signal")
		}
		if err := p.groupEmpty(ctx, id); err != nil {
			return err
		}
		end, err := p.ended(ctx, id)
		if err == nil && (end.Signal == nil || *end.Signal != signal || end.ExitCode != nil) {
			err = fmt.Errorf("ended with %+v, want signal %d", end.Outcome, signal)
		}
		return err
	}
}

// groupEmpty expects that no live member is listed. The kernel may take a
// moment to make a killed process a zombie, the daemon has looked until then.
func (p *probe) groupEmpty(ctx context.Context, id string) error {
	g, err := p.group(ctx, id)
	if err == nil && len(g.Pids) > 0 {
		err = fmt.Errorf("%d processes are left after the kill", len(g.Pids))
	}
	return err
}

// bombUser is an account that no other process of the machine uses, so that the
// process limit counts the bomb alone.
const bombUser, bombLimit = 2000014253, 64

func forkBomb(ctx context.Context, p *probe) error {
	id := p.id()
	limit := fmt.Sprintf("ulimit -p %d 2>/dev/null && [ $(ulimit -p) = %[1]d ] || ulimit -u %[1]d 2>/dev/null || { echo no; exit 3; }", bombLimit)
	// awk goes on when the limit stops it, where a shell gives up.
	bomb := `exec awk 'BEGIN { while (1) system("b() { b & b & exec sleep 300; }; b") }' 2>/dev/null`
	text := script(limit, "echo armed", bomb).with("user", bombUser)
	if err := p.start(ctx, id, text); err != nil {
		return skipped("the daemon cannot run a command as another user: " + err.Error())
	}
	line, err := p.output(ctx, id)
	if err != nil {
		return err
	}
	if line != "armed" {
		return skipped("the shell cannot set a process limit")
	}
	if err := await(ctx, "the bomb has spread", func() (bool, error) {
		g, err := p.group(ctx, id)
		// Members that ended and were not collected count for the limit, not here.
		return err == nil && len(g.Pids) >= bombLimit/4, err
	}); err != nil {
		return err
	}
	if err := p.served(ctx, "beside a fork bomb"); err != nil {
		return err
	}
	if _, err := p.kill(ctx, id); err != nil {
		return err
	}
	if err := p.groupEmpty(ctx, id); err != nil {
		return err
	}
	_, err = p.ended(ctx, id)
	return err
}

// nohup leaves a member that holds no pipe: the exec ends, the survivor is
// listed, a kill still reaches it.
func nohup(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("nohup sleep 300 >/dev/null 2>&1 & echo $!")); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err != nil {
		return err
	}
	g, err := p.group(ctx, id)
	if err != nil {
		return err
	}
	if end.WritersMayBeAlive || !g.ChildExited || len(g.Pids) != 1 || strconv.Itoa(int(g.Pids[0])) != strings.TrimSpace(end.Stdout) {
		return fmt.Errorf("the survivor %q is listed as %+v", end.Stdout, g)
	}
	killed, err := p.kill(ctx, id)
	if err == nil && !killed {
		err = errors.New("the survivor was not signalled")
	}
	if err != nil {
		return err
	}
	if err := p.groupEmpty(ctx, id); err != nil {
		return err
	}
	killed, err = p.kill(ctx, id)
	if err == nil && killed {
		err = errors.New("a second kill says that there was something to signal")
	}
	return err
}

// newSession leaves a process that has left the group and holds the pipes: the
// exec ends with the linger and says so, and no signal reaches the process.
func newSession(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("setsid sh -c 'echo $$; exec sleep 300' &", "exit 0")); err != nil {
		return err
	}
	line, err := p.output(ctx, id)
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(line)
	if err != nil || pid < 2 {
		return fmt.Errorf("the runaway has the pid %q", line)
	}
	end, err := p.ended(ctx, id)
	if err == nil && !end.WritersMayBeAlive {
		err = errors.New("a writer is alive and the result does not say so")
	}
	killed, killErr := p.kill(ctx, id)
	if killErr == nil && killed {
		killErr = errors.New("a process outside the group was signalled")
	}
	// It is this case that ends the runaway, by its pid, and it must be there.
	ender := p.id()
	if err := errors.Join(err, killErr, p.start(ctx, ender, script(fmt.Sprintf("kill -9 %d", pid)))); err != nil {
		return err
	}
	end, err = p.ended(ctx, ender)
	if err == nil && (end.ExitCode == nil || *end.ExitCode != 0) {
		err = fmt.Errorf("the runaway was gone: %+v", end.Outcome)
	}
	return err
}

// killMoments is E10.
func killMoments() Row {
	return Row{
		ID: "E10", Name: "kill before, during and after the life of a process, and after its pid was given away",
		Expect:       "never a signal to a stranger; a second kill changes nothing",
		Requirements: []string{"KILL-1", "KILL-5", "KILL-12", "KILL-13", "EXEC-23", "EXEC-30", "EXEC-33"},
		Cases: []Case{
			{Name: "before the start", Do: func(ctx context.Context, p *probe) error {
				return p.expect(ctx, "POST", execPath(p.id(), "/kill"), "", refused(api.UnknownExec))
			}},
			{Name: "beside the start", Do: killBesideStart},
			{Name: "during, twice", Do: killTwice},
			{Name: "after the exit, and after the ack", Do: killAfterExit},
			{Name: "a pid given away", Do: recycledPid},
		},
	}
}

// killBesideStart races kills against the start: each is answered 404, or the
// command ends by the signal.
func killBesideStart(ctx context.Context, p *probe) error {
	for range 20 {
		id := p.id()
		started := make(chan error, 1)
		go func() { started <- p.start(ctx, id, argv("/bin/sleep", "300")) }()
		err := await(ctx, "the kill finds the exec", func() (bool, error) {
			r, err := p.call(ctx, "POST", execPath(id, "/kill"), "")
			if err != nil || r.status == 200 {
				return true, err
			}
			return false, refused(api.UnknownExec).match(r)
		})
		if err := errors.Join(err, <-started); err != nil {
			return err
		}
		end, err := p.ended(ctx, id)
		if err != nil {
			return err
		}
		if end.Signal == nil || *end.Signal != 15 {
			return fmt.Errorf("killed beside its start it ended with %+v", end.Outcome)
		}
		if err := p.drop(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func killTwice(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, argv("/bin/sleep", "300")); err != nil {
		return err
	}
	both := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := p.kill(ctx, id)
			both <- err
		}()
	}
	if err := errors.Join(<-both, <-both); err != nil {
		return err
	}
	end, err := p.ended(ctx, id)
	if err == nil && (end.Signal == nil || *end.Signal != 15) {
		err = fmt.Errorf("killed twice it ended with %+v", end.Outcome)
	}
	return err
}

func killAfterExit(ctx context.Context, p *probe) error {
	id := p.id()
	if err := p.start(ctx, id, script("exit 7")); err != nil {
		return err
	}
	for _, when := range []string{"after the exit", "again", "after the ack"} {
		end, err := p.ended(ctx, id)
		if when == "after the ack" {
			err = p.expect(ctx, "POST", execPath(id, "/ack"), "", is(200))
		} else if err == nil && (end.ExitCode == nil || *end.ExitCode != 7) {
			err = fmt.Errorf("ended with %+v", end.Outcome)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
		killed, err := p.kill(ctx, id)
		if err == nil && killed {
			err = errors.New("there was nothing to signal, and the kill says there was")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", when, err)
		}
	}
	return nil
}

// recycledPid has the kernel give the pid of a finished exec to a stranger and
// kills the exec. It needs a daemon with a PID namespace of its own, in which
// the next pid can be chosen without touching the machine.
func recycledPid(ctx context.Context, p *probe) error {
	asked := p.id()
	if err := p.start(ctx, asked, script("echo $PPID; readlink /proc/self/ns/pid; test -w /proc/sys/kernel/ns_last_pid && echo yes")); err != nil {
		return err
	}
	end, err := p.ended(ctx, asked)
	if err != nil {
		return err
	}
	said := strings.Fields(end.Stdout)
	own, _ := os.Readlink("/proc/self/ns/pid")
	if len(said) != 3 || said[0] != "1" || said[1] == own {
		return skipped("the daemon is not the first process of a PID namespace of its own in which pids can be chosen")
	}
	old := p.id()
	if err := p.start(ctx, old, argv("/bin/true")); err != nil {
		return err
	}
	if _, err := p.ended(ctx, old); err != nil {
		return err
	}
	g, err := p.group(ctx, old)
	if err != nil {
		return err
	}
	if g.Pgid == nil {
		return errors.New("the pid of a finished exec is not listed")
	}
	return p.killStranger(ctx, old, int(*g.Pgid))
}

// killStranger makes a process with the pid in a session of its own, which has
// that number as its group too, and kills the exec that had it before.
func (p *probe) killStranger(ctx context.Context, old string, pid int) error {
	holder := p.id()
	text := fmt.Sprintf("while :; do echo %d >/proc/sys/kernel/ns_last_pid; setsid sleep 300 >/dev/null & [ $! = %d ] && break; kill -9 $!; done; echo got; wait $!; echo $?", pid-1, pid)
	if err := p.start(ctx, holder, script(text)); err != nil {
		return err
	}
	if line, err := p.output(ctx, holder); err != nil || line != "got" {
		return fmt.Errorf("the pid was not given again: %q %w", line, err)
	}
	killed, err := p.kill(ctx, old)
	if err == nil && killed {
		err = errors.New("a stranger with the old pid was signalled")
	}
	// The stranger must still be there to be ended by this case, with a signal that the daemon never sends.
	ender := p.id()
	if err := errors.Join(err, p.start(ctx, ender, script(fmt.Sprintf("kill -USR1 %d", pid)))); err != nil {
		return err
	}
	end, endErr := p.ended(ctx, holder)
	if endErr == nil && end.Stdout != fmt.Sprintf("got\n%d\n", 128+int(syscall.SIGUSR1)) {
		endErr = fmt.Errorf("the stranger ended otherwise: %q", end.Stdout)
	}
	return errors.Join(err, endErr)
}
