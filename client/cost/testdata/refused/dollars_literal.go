// COST-2: the number inside is private.
package main

import (
	"microvms/client/cost"
)

var _ = cost.Dollars{nil} // refused: implicit assignment to unexported field usd in struct literal of type cost.Dollars

func main() {}
