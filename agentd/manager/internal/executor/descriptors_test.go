package executor

import (
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
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

// withoutCollector keeps the collector from closing files that were forgotten.
func withoutCollector(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// awaitDescriptors waits until there are no more descriptors than that: the
// core closes a run's pipes beside its terminal event.
func awaitDescriptors(t *testing.T, most int) {
	t.Helper()
	for late := time.Now().Add(10 * time.Second); descriptors(t) > most; {
		if time.Now().After(late) {
			t.Fatalf("%d descriptors were left open", descriptors(t)-most)
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
