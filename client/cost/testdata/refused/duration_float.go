// COST-1, BIND-5: a bare float is no duration.
package main

import (
	"microvms/client/cost"
)

var _ = cost.Usage{Running: 1.5} // refused: cannot use 1.5 (constant of type float64) as cost.Duration value in struct literal: float64 does not implement cost.Duration (missing method Provenance)

func main() {}
