// COST-3: an unpriced amount takes a reason.
package main

import (
	"microvms/client/cost"
)

var _ = cost.NewUnpriced() // refused: not enough arguments in call to cost.NewUnpriced have () want (string)

func main() {}
