// COST-2: a number is not added to dollars.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars

var _ = d.Add(0.5) // refused: cannot use 0.5 (untyped float constant) as cost.Dollars value in argument to d.Add

func main() {}
