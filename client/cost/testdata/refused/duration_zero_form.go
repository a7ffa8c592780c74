// COST-1: there is no zero form of a duration.
package main

import (
	"microvms/client/cost"
)

var _ = cost.Duration{} // refused: invalid composite literal type cost.Duration

func main() {}
