// COST-4: nobody declares a total exact.
package main

import (
	"microvms/client/cost"
)

var d cost.Dollars

var _ cost.Total = cost.Exact{d} // refused: implicit assignment to unexported field usd in struct literal of type cost.Exact

func main() {}
