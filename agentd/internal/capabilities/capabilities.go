// Package capabilities looks at the daemon's Linux capabilities and takes from
// its children those that reach beyond their VM's workload (wire facts, section
// 13; capabilities(7)).
package capabilities

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropped are the capabilities that no hook handler and no command inherits.
var dropped = []struct {
	name string
	bit  uintptr
}{
	{"CAP_SYS_MODULE", unix.CAP_SYS_MODULE},
	{"CAP_SYS_RAWIO", unix.CAP_SYS_RAWIO},
	{"CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE},
	{"CAP_SYS_ADMIN", unix.CAP_SYS_ADMIN},
	{"CAP_SYS_BOOT", unix.CAP_SYS_BOOT},
	{"CAP_PERFMON", unix.CAP_PERFMON},
	{"CAP_BPF", unix.CAP_BPF},
}

// MayPowerOff reports whether the effective and the permitted set of the
// calling thread both hold CAP_SYS_BOOT.
func MayPowerOff() bool {
	_, data, err := capget()
	if err != nil {
		return false
	}
	const word, bit = unix.CAP_SYS_BOOT / 32, 1 << (unix.CAP_SYS_BOOT % 32)
	return data[word].Effective&bit != 0 && data[word].Permitted&bit != 0
}

func capget() (h unix.CapUserHeader, data [2]unix.CapUserData, err error) {
	h.Version = unix.LINUX_CAPABILITY_VERSION_3
	err = unix.Capget(&h, &data[0])
	return h, data, err
}

// DropForChildren clears the inheritable and ambient sets and takes the dropped
// capabilities out of the bounding set, on every thread of the process and so
// on every later one, and then checks that it is so. The permitted and
// effective sets stay. It is called before the daemon starts anything, and an
// error means that nothing may be started.
//
// It needs a program without cgo: there the runtime knows every thread.
func DropForChildren() error {
	header, before, err := capget()
	if err != nil {
		return fmt.Errorf("cannot read the capabilities: %w", err)
	}
	for _, c := range dropped {
		// CAP-2: a kernel that does not know the bit cannot drop it.
		if _, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c.bit, 0, 0, 0); err != nil {
			return fmt.Errorf("the kernel does not know %s: %w", c.name, err)
		}
	}
	if err := allThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return fmt.Errorf("cannot clear the ambient set: %w", err)
	}
	after := before
	for i := range after {
		after[i].Inheritable = 0
	}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&after[0])), 0)
	if errno != 0 {
		return fmt.Errorf("cannot clear the inheritable set: %w", errno)
	}
	for _, c := range dropped {
		if err := allThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c.bit); err != nil {
			return fmt.Errorf("cannot drop %s from the bounding set: %w", c.name, err)
		}
	}
	return verify("/proc/self/task", before)
}

// allThreads makes one system call with two arguments on every thread.
func allThreads(trap, a1, a2 uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(trap, a1, a2, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// verify reads back the sets of every thread. want holds the permitted and
// effective sets that must be untouched.
func verify(tasks string, want [2]unix.CapUserData) error {
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return fmt.Errorf("cannot check the capabilities: %w", err)
	}
	checked := 0
	for _, t := range threads {
		status, err := os.ReadFile(tasks + "/" + t.Name() + "/status")
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if err != nil {
			return fmt.Errorf("cannot check the capabilities: %w", err)
		}
		if err := judge(string(status), want); err != nil {
			return fmt.Errorf("after the drop %w", err)
		}
		checked++
	}
	if checked == 0 {
		return fmt.Errorf("cannot check the capabilities: %q lists no thread", tasks)
	}
	return nil
}

// judge holds one thread's status file to the rules.
func judge(status string, want [2]unix.CapUserData) error {
	sets := map[string]uint64{}
	for line := range strings.Lines(status) {
		var name string
		var set uint64
		if n, _ := fmt.Sscanf(line, "Cap%3s: %x", &name, &set); n == 2 {
			sets[name] = set
		}
	}
	for _, name := range []string{"Inh", "Prm", "Eff", "Bnd", "Amb"} {
		if _, ok := sets[name]; !ok {
			return fmt.Errorf("the status names no set Cap%s", name)
		}
	}
	switch {
	case sets["Inh"] != 0:
		return fmt.Errorf("the inheritable set is %#x, not empty", sets["Inh"])
	case sets["Amb"] != 0:
		return fmt.Errorf("the ambient set is %#x, not empty", sets["Amb"])
	case sets["Prm"] != uint64(want[0].Permitted)|uint64(want[1].Permitted)<<32:
		return fmt.Errorf("the permitted set is %#x, changed", sets["Prm"])
	case sets["Eff"] != uint64(want[0].Effective)|uint64(want[1].Effective)<<32:
		return fmt.Errorf("the effective set is %#x, changed", sets["Eff"])
	}
	for _, c := range dropped {
		if sets["Bnd"]>>c.bit&1 != 0 {
			return fmt.Errorf("the bounding set holds %s", c.name)
		}
	}
	return nil
}
