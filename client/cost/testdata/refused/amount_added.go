// COST-3: an amount may be unpriced, and is not added.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars
var a cost.Amount

var _ = d.Add(a) // refused: cannot use a (variable of interface type cost.Amount) as cost.Dollars value in argument to d.Add

func main() {}
