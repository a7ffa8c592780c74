// Package identity gives a VM an identity of its own (wire facts, section 5).
// All VMs of one image come from one snapshot and would otherwise share their
// machine id, hostname, boot id and random seed. The repair runs once, at the
// winning run hook, and never in the VM in which the image is built.
package identity

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
)

// The outcomes of a step.
const (
	Repaired      = "repaired"
	NotApplicable = "not_applicable" // the thing to repair does not exist
	Failed        = "failed"
)

// Machine is what the repair changes. The zero value is the real machine;
// tests put parts of their own in its place.
type Machine struct {
	Root        string                            // prefix of every path; empty: "/"
	Random      func([]byte) error                // fills with random bytes; nil: the kernel's, without waiting for entropy
	SetHostname func(name string) error           // nil: sethostname(2)
	BindMount   func(source, target string) error // nil: mount(2) with MS_BIND
}

// WithDefaults returns m with its nil parts replaced by the real ones.
func (m Machine) WithDefaults() Machine {
	if m.Random == nil {
		m.Random = kernelRandom
	}
	if m.SetHostname == nil {
		m.SetHostname = func(name string) error { return unix.Sethostname([]byte(name)) }
	}
	if m.BindMount == nil {
		m.BindMount = func(source, target string) error { return unix.Mount(source, target, "", unix.MS_BIND, "") }
	}
	return m
}

// kernelRandom does not wait: a VM whose kernel has no entropy would otherwise
// hang in the run hook until the platform gives it up.
func kernelRandom(p []byte) error {
	n, err := unix.Getrandom(p, unix.GRND_NONBLOCK)
	if err == nil && n != len(p) {
		err = fmt.Errorf("got %d of %d random bytes", n, len(p))
	}
	return err
}

// The files of the repair.
const (
	machineID   = "/etc/machine-id"
	ownBootID   = "/run/agentd-boot-id"
	procBootID  = "/proc/sys/kernel/random/boot_id"
	randomSeed  = "/var/lib/systemd/random-seed"
	dbusMachine = "/var/lib/dbus/machine-id"
)

// Repair takes every step in order and returns what each came to, in a fresh
// slice. A step that fails stops no other: half an identity is better than the
// whole of another VM's.
func (m Machine) Repair() []api.IdentityStep {
	m = m.WithDefaults()
	var id [16]byte
	entropy := m.Random(id[:])
	named := func(do func(id string) (string, error)) func() (string, error) {
		return func() (string, error) {
			if entropy != nil {
				return "", fmt.Errorf("no random bytes: %w", entropy) // IDENTITY-5: never a guessable or a shared id
			}
			return do(hex.EncodeToString(id[:]))
		}
	}
	// IDENTITY-2: in this order, whatever became of the step before.
	var steps []api.IdentityStep
	for _, s := range []struct {
		name string
		do   func() (string, error)
	}{
		{"machine-id", named(m.machineID)},
		{"hostname", named(m.hostname)},
		{"boot-id", named(m.bootID)},
		{"random-seed", func() (string, error) { return m.remove(randomSeed) }},
		{"cached-credential", func() (string, error) { return m.remove(dbusMachine) }},
	} {
		outcome, err := s.do()
		step := api.IdentityStep{Name: s.name, Outcome: outcome}
		if err != nil {
			text := reason(err)
			step.Outcome, step.Error = Failed, &text
		}
		steps = append(steps, step)
	}
	return steps
}

// Degraded reports whether some step failed.
func Degraded(steps []api.IdentityStep) bool {
	for _, s := range steps {
		if s.Outcome == Failed {
			return true
		}
	}
	return false
}

// reason is an error without the path that it is about: the step names it.
func reason(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Op + ": " + path.Err.Error()
	}
	return err.Error()
}

func (m Machine) path(p string) string { return filepath.Join("/", m.Root, p) }

func (m Machine) machineID(id string) (string, error) {
	return Repaired, m.replace(machineID, id+"\n")
}

func (m Machine) hostname(id string) (string, error) {
	return Repaired, m.SetHostname("microvm-" + id[:12])
}

// bootID covers the kernel's boot id, which nothing can write, with a file.
func (m Machine) bootID(id string) (string, error) {
	if _, err := os.Lstat(m.path(procBootID)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return NotApplicable, nil
		}
		return "", err
	}
	dashed := id[:8] + "-" + id[8:12] + "-" + id[12:16] + "-" + id[16:20] + "-" + id[20:]
	if err := m.replace(ownBootID, dashed+"\n"); err != nil {
		return "", err
	}
	return Repaired, m.BindMount(m.path(ownBootID), m.path(procBootID))
}

// remove deletes a file that must not be shared and that its owner makes again.
func (m Machine) remove(path string) (string, error) {
	switch err := unix.Unlink(m.path(path)); err {
	case nil:
		return Repaired, nil
	case unix.ENOENT, unix.ENOTDIR:
		return NotApplicable, nil
	default:
		return "", err
	}
}

// replace makes a fresh read-only file. What stood there is unlinked first, so
// that a link or a shared inode is never written through.
func (m Machine) replace(path, content string) error {
	path = m.path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := unix.Unlink(path); err != nil && err != unix.ENOENT {
		return &fs.PathError{Op: "unlink", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = f.WriteString(content)
	if err == nil {
		err = f.Chmod(0o444) // whatever the umask left
	}
	return errors.Join(err, f.Close())
}
