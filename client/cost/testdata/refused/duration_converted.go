// COST-1: no conversion labels a plain duration.
package main

import (
	"time"

	"microvms/client/cost"
)

var _ = cost.Duration(time.Minute) // refused: cannot convert time.Minute (constant 60000000000 of int64 type time.Duration) to type cost.Duration: time.Duration does not implement cost.Duration (missing method Provenance)

func main() {}
