package main

import (
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"microvms/agentd/execution"
	"microvms/agentd/internal/capabilities"
)

// process is what the command does to the process that it runs in. Tests of
// run pass one that changes nothing.
type process interface {
	// prepare hardens the process and returns the out-of-memory scores to use,
	// nil to leave them alone.
	prepare(log *slog.Logger) *execution.OOMScoreAdj
	// adoptsOrphans reports whether orphans become this process's children.
	adoptsOrphans() bool
	// dropCapabilities takes from later children what the image withholds. An
	// error means that nothing may be started.
	dropCapabilities() error
	// powerOff returns what powers the machine off, nil for nothing.
	powerOff() func() error
}

// thisProcess is the real one.
type thisProcess struct{}

// ownScore is low enough to outlive any workload and not the value that would
// make a leak of the daemon's own unkillable.
const ownScore = -900

// gcPercent keeps the collector's slack small: what the daemon holds is
// commands' output, by the contract and in megabytes, and doubling it would cost
// the guest memory that its workload paid for.
const gcPercent = 50

func (thisProcess) prepare(log *slog.Logger) *execution.OOMScoreAdj {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	// WAIT-5: a child without CAP_SYS_PTRACE cannot read the daemon's memory
	// or environment, where the token and image secrets are.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		log.Warn("cannot make the process non-dumpable", "err", err)
	}
	data, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		log.Warn("cannot read the oom score: it stays as it is", "err", err)
		return nil
	}
	inherited, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		log.Warn("cannot read the oom score: it stays as it is", "err", err)
		return nil
	}
	if inherited <= ownScore {
		return nil
	}
	// WAIT-6, WAIT-7: the daemon is the last to go, its children are not.
	return &execution.OOMScoreAdj{Own: ownScore, Child: inherited}
}

func (thisProcess) adoptsOrphans() bool {
	var subreaper int32
	if err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&subreaper)), 0, 0, 0); err != nil {
		subreaper = 0
	}
	return os.Getpid() == 1 || subreaper != 0
}

func (thisProcess) dropCapabilities() error { return capabilities.DropForChildren() }

func (thisProcess) powerOff() func() error {
	return func() error {
		// The call ends the machine without writing anything back.
		unix.Sync()
		return unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // POWER-7: one call, no shell, no capability raised for it
	}
}
