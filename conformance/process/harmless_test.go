package process

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// TestStartedWithoutBoot checks that what is started cannot power the machine
// off, while the caller keeps its capabilities.
func TestStartedWithoutBoot(t *testing.T) {
	before := bounding(t, exec.Command("cat", "/proc/self/status"), (*exec.Cmd).Run)
	ended := make(chan struct{})
	defer close(ended)
	inside := bounding(t, exec.Command("cat", "/proc/self/status"), func(c *exec.Cmd) error {
		if err := startHarmless(c, ended); err != nil {
			return err
		}
		return c.Wait()
	})
	after := bounding(t, exec.Command("cat", "/proc/self/status"), (*exec.Cmd).Run)
	if before != after {
		t.Errorf("the bounding set outside was %s and is %s", before, after)
	}
	// CAP_SYS_BOOT is bit 22: bit 2 of the sixth hexadecimal digit from the right.
	digit := inside[len(inside)-6]
	if strings.IndexByte("4567cdef", digit) >= 0 {
		t.Errorf("the bounding set inside is %s and holds CAP_SYS_BOOT", inside)
	}
}

func bounding(t *testing.T, cmd *exec.Cmd, run func(*exec.Cmd) error) string {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := run(cmd); err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(out.String(), "CapBnd:\t")
	if !ok {
		t.Fatalf("no bounding set in %q", out.String())
	}
	return rest[:16]
}
