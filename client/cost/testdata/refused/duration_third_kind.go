// COST-1: another package cannot add a third kind.
package main

import (
	"microvms/client/cost"
)

type guessed struct{}

func (guessed) Provenance() cost.Provenance { return "guessed" }
func (guessed) Seconds() string             { return "1" }
func (guessed) length() int                 { return 1 }

var _ cost.Duration = guessed{} // refused: cannot use guessed{} (value of struct type guessed) as cost.Duration value in variable declaration: guessed does not implement cost.Duration (unexported method length)

func main() {}
