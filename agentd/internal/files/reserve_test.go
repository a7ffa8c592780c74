package files

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// disk is a disk whose free space a test sets.
type disk struct {
	mu    sync.Mutex
	free  uint64
	err   error
	looks int
}

func (d *disk) probe(string) (Space, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks++
	return Space{Available: d.free, Device: 7}, d.err
}

func isFull(err error) bool { var full *FullError; return errors.As(err, &full) }

// TestReserveIsHeldAgainstWhatRemains claims around the edge.
func TestReserveIsHeldAgainstWhatRemains(t *testing.T) {
	t.Attr("requirement", "FS-10")
	d := &disk{free: 1000}
	r := &Reserve{Bytes: 600, Probe: d.probe}
	for n, want := range map[uint64]bool{0: true, 400: true, 401: false, 1 << 63: false} {
		c, err := r.Claim("/", n)
		if (err == nil) != want || (err != nil && !isFull(err)) {
			t.Errorf("claim of %d: %v, want granted: %v", n, err, want)
		}
		if err != nil && (!strings.Contains(err.Error(), "1000") || !strings.Contains(err.Error(), "600")) {
			t.Errorf("the refusal %q lacks a byte count", err)
		}
		if c != nil {
			c.Release()
		}
	}
	d.free = 599
	if _, err := r.Claim("/", 0); !isFull(err) {
		t.Errorf("below the reserve already: %v", err)
	}
	if _, err := (&Reserve{Probe: d.probe}).Claim("/", 1<<40); err != nil {
		t.Errorf("no reserve: %v", err)
	}
}

// TestTwoClaimsCannotHaveTheSameSpace races for the last space.
func TestTwoClaimsCannotHaveTheSameSpace(t *testing.T) {
	t.Attr("requirement", "FS-10")
	d := &disk{free: 1000}
	r := &Reserve{Bytes: 100, Probe: d.probe}
	for range 100 {
		var wg sync.WaitGroup
		claims := make([]*Claim, 4)
		for i := range claims {
			wg.Go(func() { claims[i], _ = r.Claim("/", 500) })
		}
		wg.Wait()
		granted := 0
		for _, c := range claims {
			if c != nil {
				granted++
				c.Release()
			}
		}
		if granted != 1 {
			t.Fatalf("%d claims of 500 bytes were granted where 900 are free", granted)
		}
	}
	if len(r.promised) != 0 {
		t.Errorf("%v is still promised", r.promised)
	}
}

// TestClaimOfUnknownLength grows as it writes, in pieces while there is room
// and byte by byte at the end.
func TestClaimOfUnknownLength(t *testing.T) {
	t.Attr("requirement", "FS-11")
	d := &disk{free: 3<<20 + 48}
	r := &Reserve{Bytes: 1 << 20, Probe: d.probe}
	c, err := r.Claim("/", 0)
	if err != nil {
		t.Fatal(err)
	}
	written := uint64(0)
	for {
		if err = c.Write(10); err != nil {
			break
		}
		written += 10
		d.free -= 10
	}
	if !isFull(err) || written != 2<<20+48 {
		t.Errorf("%d bytes were written before %v, want %d", written, err, 2<<20+48)
	}
	c.Release()
	if len(r.promised) != 0 {
		t.Errorf("%v is still promised", r.promised)
	}
}

// TestClaimLooksAgain counts looks while a declared body is written, and meets a
// disk that another process filled.
func TestClaimLooksAgain(t *testing.T) {
	t.Attr("requirement", "FS-11")
	d := &disk{free: 1 << 30}
	r := &Reserve{Bytes: 1 << 20, Probe: d.probe}
	c, err := r.Claim("/", 100<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	since, at := 0, d.looks
	for range 50 {
		if err := c.Write(1 << 20); err != nil {
			t.Fatal(err)
		}
		if since++; d.looks != at {
			since, at = 1, d.looks
		}
		if since > 8 {
			t.Fatal("more than 8 MiB were written without a look")
		}
	}
	d.free = 40 << 20 // less than the 50 MiB that are still to come
	for range 9 {
		if err = c.Write(1 << 20); err != nil {
			break
		}
	}
	if !isFull(err) {
		t.Errorf("%v, want a full disk within 8 MiB", err)
	}
}

// TestUnknownIsNotFull lets writes pass where the space cannot be measured.
func TestUnknownIsNotFull(t *testing.T) {
	t.Attr("requirement", "FS-12")
	d := &disk{err: unix.EIO}
	r := &Reserve{Bytes: 1 << 20, Probe: d.probe}
	c, err := r.Claim("/", 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(1 << 40); err != nil {
		t.Error(err)
	}
	c.Release()
	// Measured at first, and no more.
	d.err, d.free = nil, 1<<30
	if c, err = r.Claim("/", 0); err != nil {
		t.Fatal(err)
	}
	d.err = unix.EIO
	if err := c.Write(1 << 40); err != nil {
		t.Error(err)
	}
	c.Release()
}

// TestProcIsNotFull measures a filesystem without blocks.
func TestProcIsNotFull(t *testing.T) {
	t.Attr("requirement", "FS-12")
	r := &Reserve{Bytes: 1 << 60}
	c, err := r.Claim("/proc/self", 1)
	if err != nil {
		t.Fatal(err)
	}
	c.Release()
	if _, err := r.Claim(t.TempDir(), 1); !isFull(err) {
		t.Errorf("a disk below the reserve: %v", err)
	}
}

// TestNearestAncestor finds where a write would land.
func TestNearestAncestor(t *testing.T) {
	t.Attr("requirement", "FS-10")
	dir := t.TempDir()
	for path, want := range map[string]string{dir: dir, dir + "/a/b/c": dir, "/": "/", "none/at/all": "."} {
		if got := nearest(path); got != want {
			t.Errorf("nearest(%q) = %q, want %q", path, got, want)
		}
	}
}
