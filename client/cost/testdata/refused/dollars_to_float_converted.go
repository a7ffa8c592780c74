// COST-2: no conversion makes a float of dollars.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars

var _ = float64(d) // refused: cannot convert d (variable of struct type cost.Dollars) to type float64

func main() {}
