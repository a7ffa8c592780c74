package verify

import (
	"strings"
	"testing"
)

func TestMachineChangesAreSeen(t *testing.T) {
	t.Attr("requirement", "VERIFY-13")
	before := Machine{Hostname: "a", MachineID: "1", Mounts: "21 1 0:1 / / rw - ext4 x rw\n22 21 0:2 / /proc rw - proc proc rw\n"}
	for _, tc := range []struct {
		name  string
		edit  func(*Machine)
		words string
	}{
		{"nothing", func(*Machine) {}, ""},
		{"hostname", func(m *Machine) { m.Hostname = "b" }, "the hostname was"},
		{"machine id", func(m *Machine) { m.MachineID = "2" }, "the machine id was"},
		{"a mount more", func(m *Machine) { m.Mounts += "23 22 0:3 / /mnt rw - tmpfs t rw\n" }, "is new"},
		{"a mount fewer", func(m *Machine) { m.Mounts = "21 1 0:1 / / rw - ext4 x rw\n" }, "is gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after := before
			tc.edit(&after)
			got := before.Changed(after)
			if (tc.words == "" && got != "") || !strings.Contains(got, tc.words) {
				t.Errorf("Changed = %q, want %q", got, tc.words)
			}
		})
	}
}

func TestPeerGroupsDoNotCount(t *testing.T) {
	t.Attr("requirement", "VERIFY-13")
	if got := steady("21 1 0:1 / / rw shared:1 master:3 - ext4 x rw\n"); got != "21 1 0:1 / / rw - ext4 x rw\n" {
		t.Errorf("steady = %q", got)
	}
}

// TestThisMachineIsRead makes sure that the comparison is of something.
func TestThisMachineIsRead(t *testing.T) {
	t.Attr("requirement", "VERIFY-13")
	if m := ReadMachine(); m.Hostname == "" || m.Mounts == "" {
		t.Errorf("hostname %q, %d bytes of mounts: the comparison would be of nothing", m.Hostname, len(m.Mounts))
	}
}
