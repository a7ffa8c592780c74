// TRAP-10: a size class comes from a table.
package main

import (
	"microvms/client/cost"
	"microvms/client/sizing"
)

var _ = cost.Plan{Size: sizing.Class{1500}} // refused: implicit assignment to unexported field row in struct literal of type sizing.Class

func main() {}
