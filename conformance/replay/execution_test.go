package replay

import (
	"testing"

	"microvms/model"
	"microvms/model/execution"
)

// groupReplay finds a configuration by its name.
func groupReplay(t *testing.T, name string) execution.GroupConfig {
	t.Helper()
	for _, c := range execution.GroupReplays() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the group model has no configuration %q", name)
	return execution.GroupConfig{}
}

// TestExecPairBinary replays two ids on the daemon's binary: starts, retries,
// refusals, exits, kills and acks.
func TestExecPairBinary(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-16", "EXEC-21", "EXEC-22", "EXEC-23", "EXEC-24", "EXEC-25", "EXEC-26",
		"EXEC-30", "EXEC-33", "HEALTH-3", "HEALTH-4", "KILL-12", "KILL-13", "PROC-2", "PROC-3")
	t.Parallel()
	judge(t, ExecGroup(groupReplay(t, "group-replay-binary-pair"), "binary", execAsBinary(t)))
}

// TestExecMemberBinary replays a member that outlives its leader, closes the
// pipe or escapes.
func TestExecMemberBinary(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-21", "EXEC-22", "EXEC-23", "EXEC-24", "EXEC-25", "EXEC-26", "EXEC-30",
		"EXEC-33", "HEALTH-3", "HEALTH-4", "KILL-1", "KILL-6", "KILL-13", "PROC-2", "PROC-3")
	t.Parallel()
	judge(t, ExecGroup(groupReplay(t, "group-replay-binary-member"), "binary", execAsBinary(t)))
}

// TestExecClock replays every timer.
func TestExecClock(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-18", "EXEC-19", "EXEC-20", "EXEC-21", "EXEC-22", "EXEC-23", "EXEC-24",
		"EXEC-25", "EXEC-26", "EXEC-27", "EXEC-28", "EXEC-29", "EXEC-30", "EXEC-31", "EXEC-32", "EXEC-33", "HEALTH-3",
		"HEALTH-4", "KILL-1", "KILL-2", "KILL-3", "KILL-6", "KILL-10", "KILL-13", "PROC-2", "PROC-3")
	t.Parallel()
	judge(t, ExecGroup(groupReplay(t, "group-replay-clock"), "in-process", execInProcess()))
}

// TestExecDeadline replays a deadline that processes ignore or outrun.
func TestExecDeadline(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-18", "EXEC-19", "EXEC-20", "EXEC-21", "EXEC-22", "EXEC-23", "EXEC-24", "EXEC-25",
		"EXEC-26", "EXEC-27", "EXEC-28", "EXEC-30", "EXEC-31", "EXEC-32", "EXEC-33", "HEALTH-3", "HEALTH-4", "KILL-2",
		"KILL-3", "KILL-11", "KILL-13", "PROC-2", "PROC-3")
	t.Parallel()
	judge(t, ExecGroup(groupReplay(t, "group-replay-deadline"), "in-process", execInProcess()))
}

// TestExecGated replays every interleaving of the daemon's own steps with two
// overlapping starts, a kill, an ack and the processes.
func TestExecGated(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-3", "EXEC-5", "EXEC-18", "EXEC-21", "EXEC-22", "EXEC-23", "EXEC-24", "EXEC-25",
		"EXEC-26", "EXEC-30", "EXEC-33", "HEALTH-3", "HEALTH-4", "KILL-1", "KILL-4", "KILL-5", "KILL-6", "KILL-9", "KILL-13",
		"KILL-14", "PROC-2", "PROC-3")
	t.Parallel()
	judge(t, ExecGroupGated(groupReplay(t, "group-replay-gate"), execInProcess()))
}

// TestExecPowerOff replays the end of an exec that powers the machine off, with
// the daemon's power-off replaced by a mark.
func TestExecPowerOff(t *testing.T) {
	claim(t, "EXEC-37", "POWER-2")
	t.Parallel()
	judge(t, ExecGroupGated(groupReplay(t, "group-replay-poweroff"), execInProcess()))
}

func outputReplay(t *testing.T, name string) execution.OutputConfig {
	t.Helper()
	for _, c := range execution.OutputReplays() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the output model has no configuration %q", name)
	return execution.OutputConfig{}
}

// TestExecOutputBinary replays two readers on the daemon's binary.
func TestExecOutputBinary(t *testing.T) {
	claim(t, "EXEC-22", "EXEC-35", "OUT-4", "OUT-6", "OUT-8", "OUT-10", "OUT-11", "OUT-12", "OUT-13", "OUT-20")
	t.Parallel()
	judge(t, ExecOutput(outputReplay(t, "output-replay-binary"), "binary", execAsBinary(t)))
}

// TestExecOutputLinger replays a survivor that writes during and after the
// linger.
func TestExecOutputLinger(t *testing.T) {
	claim(t, "EXEC-21", "EXEC-22", "EXEC-27", "EXEC-35", "OUT-4", "OUT-6", "OUT-8", "OUT-10", "OUT-12", "OUT-13")
	t.Parallel()
	judge(t, ExecOutput(outputReplay(t, "output-replay-linger"), "in-process", execInProcess()))
}

// TestExecOutputGated replays every interleaving of publications, events to two
// readers and the exit.
func TestExecOutputGated(t *testing.T) {
	claim(t, "EXEC-22", "EXEC-23", "EXEC-35", "OUT-4", "OUT-5", "OUT-6", "OUT-7", "OUT-8", "OUT-10", "OUT-12", "OUT-13",
		"OUT-17", "OUT-18")
	t.Parallel()
	judge(t, ExecOutputGated(outputReplay(t, "output-replay-gate"), execInProcess()))
}

func stdinReplay(t *testing.T, name string) execution.StdinConfig {
	t.Helper()
	for _, c := range execution.StdinReplays() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("the stdin model has no configuration %q", name)
	return execution.StdinConfig{}
}

// TestExecStdinBinary replays requests that never fill the pipe.
func TestExecStdinBinary(t *testing.T) {
	claim(t, "STDIN-1", "STDIN-2", "STDIN-3", "STDIN-4", "STDIN-5", "STDIN-6", "STDIN-10")
	t.Parallel()
	judge(t, ExecStdin(stdinReplay(t, "stdin-replay-binary"), "binary", execAsBinary(t)))
}

// TestExecStdinClock replays requests that stall and time out.
func TestExecStdinClock(t *testing.T) {
	claim(t, "STDIN-3", "STDIN-4", "STDIN-5", "STDIN-6", "STDIN-7", "STDIN-10")
	t.Parallel()
	judge(t, ExecStdin(stdinReplay(t, "stdin-replay-clock"), "in-process", execInProcess()))
}

// TestExecRealTimeBinary lets each timer of the binary pass once, in real time
// and all at once: deadline, grace, linger and retention.
func TestExecRealTimeBinary(t *testing.T) {
	claim(t, "EXEC-1", "EXEC-2", "EXEC-18", "EXEC-19", "EXEC-20", "EXEC-22", "EXEC-23", "EXEC-24", "EXEC-27",
		"EXEC-28", "EXEC-31", "EXEC-32", "EXEC-33", "HEALTH-3", "HEALTH-4", "KILL-2", "KILL-3", "KILL-13", "PROC-2",
		"PROC-3")
	t.Parallel()
	spec := ExecGroup(groupReplay(t, "group-replay-clock"), "binary", execInRealTime(t))
	judge(t, InRealTime(spec, GroupTimerRuns,
		[]model.Action{
			model.Act(execution.ExecStart, 0, uint8(execution.ReapGroup)), model.Act(execution.MemberFork, 0),
			model.Act(execution.MemberIgnore, 0), model.Act(execution.LeaderExit, 0),
			model.Act(execution.GraceExpire, 0, uint8(execution.ByReap)),
		},
		[]model.Action{model.Act(execution.ExecStart, 0, uint8(execution.Timed)), model.Act(execution.DeadlineExpire, 0)},
		[]model.Action{
			model.Act(execution.ExecStart, 0, uint8(execution.Plain)), model.Act(execution.MemberFork, 0),
			model.Act(execution.LeaderExit, 0), model.Act(execution.LingerExpire, 0),
		},
		[]model.Action{
			model.Act(execution.ExecStart, 0, uint8(execution.Plain)), model.Act(execution.LeaderExit, 0),
			model.Act(execution.ExecAck, 0), model.Act(execution.ExecCollect, 0),
		},
	))
}

// TestExecStdinRealTimeBinary lets the binary's write timeout pass once, in real
// time.
func TestExecStdinRealTimeBinary(t *testing.T) {
	claim(t, "STDIN-7")
	t.Parallel()
	spec := ExecStdin(stdinReplay(t, "stdin-replay-clock"), "binary", execInRealTime(t))
	judge(t, InRealTime(spec, StdinTimerRuns, []model.Action{model.Act(execution.StdinWrite, 0, 2, 0), model.Act(execution.StdinTimeout, 0)}))
}

// TestExecOutputCutBinary replays a reader that is cut and resumes.
func TestExecOutputCutBinary(t *testing.T) {
	claim(t, "EXEC-21", "EXEC-22", "EXEC-27", "EXEC-35", "OUT-4", "OUT-6", "OUT-8", "OUT-10", "OUT-11", "OUT-12",
		"OUT-13", "OUT-20")
	t.Parallel()
	judge(t, ExecOutput(outputReplay(t, "output-replay-cut"), "binary", execAsBinary(t)))
}

// TestExecUntold replays on a binary that tells nothing but its answers.
func TestExecUntold(t *testing.T) {
	t.Parallel()
	start := untold(execAsBinary(t))
	for _, run := range []func() (*Result, error){
		func() (*Result, error) {
			return Run(t.Context(), ExecGroup(groupReplay(t, "group-replay-binary-pair"), "binary", start))
		},
		func() (*Result, error) {
			return Run(t.Context(), ExecGroup(groupReplay(t, "group-replay-binary-member"), "binary", start))
		},
		func() (*Result, error) {
			return Run(t.Context(), ExecOutput(outputReplay(t, "output-replay-cut"), "binary", start))
		},
		func() (*Result, error) {
			return Run(t.Context(), ExecStdin(stdinReplay(t, "stdin-replay-binary"), "binary", start))
		},
	} {
		r, err := run()
		if err != nil {
			t.Fatal(err)
		}
		t.Log(r)
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	}
}
