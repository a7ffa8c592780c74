// COST-2: dollars have no arithmetic of numbers.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars

var _ = d + d // refused: invalid operation: operator + not defined on d (variable of struct type cost.Dollars)

func main() {}
