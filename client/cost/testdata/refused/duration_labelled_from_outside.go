// COST-1: the labelled kinds are out of reach.
package main

import (
	"microvms/client/cost"
)

var _ cost.Duration = cost.measured{} // refused: name measured not exported by package cost

func main() {}
