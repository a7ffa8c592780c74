//go:build !linux

package model

// mapSlots returns n empty slots. Only Linux gets huge pages.
func mapSlots(n uint64) ([]slot, func()) { return make([]slot, n), nil }
