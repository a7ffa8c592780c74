// COST-1, BIND-5: a plain duration has no provenance.
package main

import (
	"time"

	"microvms/client/cost"
)

var _ = cost.Usage{Running: time.Minute} // refused: cannot use time.Minute (constant 60000000000 of int64 type time.Duration) as cost.Duration value in struct literal: time.Duration does not implement cost.Duration (missing method Provenance)

func main() {}
