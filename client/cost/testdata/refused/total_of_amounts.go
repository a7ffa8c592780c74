// COST-4: a total is of lines.
package main

import (
	"microvms/client/cost"
)

var a cost.Amount

var _ = cost.Sum([]cost.Amount{a}) // refused: cannot use []cost.Amount{…} (value of type []cost.Amount) as []cost.Item value in argument to cost.Sum

func main() {}
