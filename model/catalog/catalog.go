// Package catalog lists the suites of all model packages, for the command
// modelcheck and for verification. Each model package adds one line.
package catalog

import (
	"microvms/model"
	"microvms/model/admission"
	"microvms/model/bench"
	"microvms/model/bootstrap"
	"microvms/model/execstart"
	"microvms/model/execution"
	"microvms/model/handlers"
	"microvms/model/manager"
	"microvms/model/transfer"
	"microvms/model/tunnel"
)

// All returns every suite, in a fixed order. The caller owns the slice.
func All() []model.Suite {
	return []model.Suite{
		bootstrap.Suite(),
		handlers.Suite(),
		execution.Suite(),
		execstart.Suite(),
		tunnel.Suite(),
		transfer.Suite(),
		admission.Suite(),
		manager.Suite(),
		bench.Suite(),
	}
}
