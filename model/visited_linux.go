package model

import (
	"syscall"
	"unsafe"
)

// mapSlots returns n empty slots and what frees them, or nil when the system
// gives no memory. Large tables are anonymous
// mappings advised for huge pages: once a table outgrows the TLB that is worth
// 17–40 % (checker facts, section 3.2), and the collector never sees them.
func mapSlots(n uint64) ([]slot, func()) {
	if n < 1<<14 {
		return make([]slot, n), nil
	}
	b, err := syscall.Mmap(-1, 0, int(n*16), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil // the caller stops as it does at a memory bound
	}
	// Advice only: a kernel without huge pages refuses it, and the table works.
	_ = syscall.Madvise(b, syscall.MADV_HUGEPAGE)
	return unsafe.Slice((*slot)(unsafe.Pointer(&b[0])), n), func() { _ = syscall.Munmap(b) }
}
