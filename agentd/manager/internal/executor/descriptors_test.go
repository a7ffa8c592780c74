package executor

import (
	"os"
	"runtime"
	"testing"
)

// descriptors counts this process's descriptors.
func descriptors(t *testing.T) int {
	t.Helper()
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(0)
	if err != nil {
		t.Fatal(err)
	}
	return len(names) - 1
}

// awaitDescriptors waits until there are no more descriptors than that: the
// core closes a run's pipes beside its terminal event.
func awaitDescriptors(t *testing.T, most int) {
	t.Helper()
	for descriptors(t) > most {
		if t.Context().Err() != nil {
			t.Fatal("descriptors were left open")
		}
		runtime.Gosched()
	}
}

func closeFD(t *testing.T, fd int) {
	t.Helper()
	if err := os.NewFile(uintptr(fd), "descriptor").Close(); err != nil {
		t.Error(err)
	}
}
