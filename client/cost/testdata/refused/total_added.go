// COST-4: a total may be a lower bound, and is not added.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars
var t cost.Total

var _ = d.Add(t) // refused: cannot use t (variable of interface type cost.Total) as cost.Dollars value in argument to d.Add

func main() {}
