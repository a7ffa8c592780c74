// COST-4: a report is not altered.
package main

import (
	"microvms/client/cost"
)

func drop(r *cost.Report) {
	r.items = nil // refused: r.items undefined (type *cost.Report has no field or method items, but does have method Items)
}

func main() {}
