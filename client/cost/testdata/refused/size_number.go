// TRAP-10: a number of MiB is no size class.
package main

import (
	"microvms/client/cost"
)

var _ = cost.Plan{Size: 1500} // refused: cannot use 1500 (untyped int constant) as sizing.Class value in struct literal

func main() {}
