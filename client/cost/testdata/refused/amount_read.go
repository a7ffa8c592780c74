// COST-3: an amount has no price to read unasked.
package main

import (
	"microvms/client/cost"
)

var a cost.Amount

var _ = a.USD() // refused: a.USD undefined (type cost.Amount has no field or method USD)

func main() {}
