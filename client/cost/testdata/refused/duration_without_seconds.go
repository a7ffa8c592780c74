// COST-1: measuring takes a duration with its unit, not a float.
package main

import (
	"microvms/client/cost"
)

var f = 1.5

var _, _ = cost.Measured(f) // refused: cannot use f (variable of type float64) as time.Duration value in argument to cost.Measured

func main() {}
