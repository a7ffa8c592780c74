package verify

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Machine is what a run must leave as it was: nothing that the gate starts may repair, rename or mount anything.
type Machine struct{ Hostname, MachineID, Mounts string }

// ReadMachine reads the state of this machine. What cannot be read counts as empty, before and after alike.
func ReadMachine() Machine {
	host, _ := os.Hostname()
	id, _ := os.ReadFile("/etc/machine-id")
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	return Machine{Hostname: host, MachineID: strings.TrimSpace(string(id)), Mounts: steady(string(mounts))}
}

// optional matches the optional fields of a mountinfo line (proc_pid_mountinfo(5)): peer groups change when anybody
// makes a namespace, which changes nothing here.
var optional = regexp.MustCompile(`( (shared|master|propagate_from):\d+| unbindable)+ - `)

func steady(mountinfo string) string { return optional.ReplaceAllString(mountinfo, " - ") }

// Changed says what differs between two readings, or "".
func (m Machine) Changed(after Machine) string {
	var parts []string
	add := func(name, was, is string) {
		if was != is {
			parts = append(parts, fmt.Sprintf("%s was %q and is %q", name, was, is))
		}
	}
	add("the hostname", m.Hostname, after.Hostname)
	add("the machine id", m.MachineID, after.MachineID)
	if m.Mounts != after.Mounts {
		parts = append(parts, "the mounts differ: "+lineDiff(m.Mounts, after.Mounts))
	}
	return strings.Join(parts, "; ")
}

// lineDiff names the first line that only one side has.
func lineDiff(a, b string) string {
	in := func(s string) map[string]bool {
		set := map[string]bool{}
		for _, l := range strings.Split(s, "\n") {
			set[l] = true
		}
		return set
	}
	was, is := in(a), in(b)
	for _, l := range strings.Split(b, "\n") {
		if !was[l] {
			return fmt.Sprintf("%q is new", l)
		}
	}
	for _, l := range strings.Split(a, "\n") {
		if !is[l] {
			return fmt.Sprintf("%q is gone", l)
		}
	}
	return "their order"
}
