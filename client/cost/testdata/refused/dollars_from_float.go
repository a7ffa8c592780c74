// COST-6: dollars are not made of a float.
package main

import (
	"microvms/client/cost"
)

var _, _ = cost.DollarsOf(1.5) // refused: cannot use 1.5 (untyped float constant) as *apd.Decimal value in argument to cost.DollarsOf

func main() {}
