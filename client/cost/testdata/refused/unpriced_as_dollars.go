// COST-3: an unpriced amount is no dollars.
package main

import (
	"microvms/client/cost"
)

var _ cost.Dollars = cost.NewUnpriced("nobody knows") // refused: cannot use cost.NewUnpriced("nobody knows") (value of struct type cost.Unpriced) as cost.Dollars value in variable declaration

func main() {}
