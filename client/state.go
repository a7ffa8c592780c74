package client

import (
	"fmt"
	"syscall"

	"microvms/agentd/api"
)

// ProcessState tells how a command ended, as os.ProcessState does.
type ProcessState struct {
	id      string
	outcome api.Outcome
}

// ExecID is the command's exec id.
func (p *ProcessState) ExecID() string { return p.id }

// ExitCode is the exit code, or -1 for a command that a signal ended.
func (p *ProcessState) ExitCode() int {
	if p.outcome.ExitCode == nil {
		return -1
	}
	return int(*p.outcome.ExitCode)
}

// Signal is the signal that ended the command, or -1.
func (p *ProcessState) Signal() syscall.Signal {
	if p.outcome.Signal == nil {
		return -1
	}
	return syscall.Signal(*p.outcome.Signal)
}

// TimedOut says whether the daemon's deadline passed. Such a command did not
// succeed, whatever its exit code.
func (p *ProcessState) TimedOut() bool { return p.outcome.TimedOut }

// WritersMayBeAlive says whether a process still held the output open when the
// daemon stopped listening.
func (p *ProcessState) WritersMayBeAlive() bool { return p.outcome.WritersMayBeAlive }

// Success says whether the command exited with code 0 by itself.
func (p *ProcessState) Success() bool { return !p.outcome.TimedOut && p.ExitCode() == 0 }

// POSIXCode is the code that a shell would report (BIND-6's rule).
func (p *ProcessState) POSIXCode() int { return posixCode(&p.outcome) }

// String describes the end as os.ProcessState does.
func (p *ProcessState) String() string {
	text := "exit status unknown"
	switch {
	case p.outcome.Signal != nil:
		text = fmt.Sprintf("signal: %v", p.Signal())
	case p.outcome.ExitCode != nil:
		text = fmt.Sprintf("exit status %d", p.ExitCode())
	}
	if p.outcome.TimedOut {
		text += " (daemon deadline)"
	}
	return text
}

// ExitError says that a command ran and did not succeed.
type ExitError struct {
	*ProcessState
	// Stderr is the beginning of standard error, if [Cmd.Output] collected it.
	Stderr []byte
}

// Error is the state's description; it holds no output.
func (e *ExitError) Error() string { return e.ProcessState.String() }
