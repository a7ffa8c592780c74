// COST-3: an unpriced amount has no price.
package main

import (
	"microvms/client/cost"
)

var u = cost.NewUnpriced("nobody knows")

var _ = u.USD() // refused: u.USD undefined (type cost.Unpriced has no field or method USD)

func main() {}
