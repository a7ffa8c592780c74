//go:build race

package model

const (
	randomSystems     = 3000
	determinismRounds = 8
)
