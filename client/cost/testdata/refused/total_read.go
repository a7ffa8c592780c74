// COST-4: a lower bound has a floor, not a value.
package main

import (
	"microvms/client/cost"
)

var t cost.AtLeast

var _ = t.USD() // refused: t.USD undefined (type cost.AtLeast has no field or method USD)

func main() {}
