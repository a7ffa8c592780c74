//go:build !race

package model

// randomSystems is the number of random systems on which the engine must agree with the reference.
const (
	randomSystems     = 100_000
	determinismRounds = 100
)
