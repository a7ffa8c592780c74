// COST-9: rates come from the pinned table or a catalog.
package main

import (
	"microvms/client/cost"
)

var _ = &cost.RateTable{region: "x"} // refused: cannot refer to unexported field region in struct literal of type cost.RateTable

func main() {}
