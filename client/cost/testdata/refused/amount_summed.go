// COST-4: amounts have no sum; lines have one.
package main

import (
	"microvms/client/cost"
)

var a cost.Amount

var _ = a + a // refused: invalid operation: operator + not defined on a (variable of interface type cost.Amount)

func main() {}
