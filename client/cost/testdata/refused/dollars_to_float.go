// COST-2: dollars do not become a float.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars

var _ float64 = d // refused: cannot use d (variable of struct type cost.Dollars) as float64 value in variable declaration

func main() {}
