// COST-1, BIND-5: a bare number is no duration.
package main

import (
	"microvms/client/cost"
)

var _ = cost.Usage{Running: 60} // refused: cannot use 60 (constant of type int) as cost.Duration value in struct literal: int does not implement cost.Duration (missing method Provenance)

func main() {}
