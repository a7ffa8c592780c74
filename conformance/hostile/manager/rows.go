package manager

import "slices"

// Rows returns the catalogue, in a fresh slice.
func Rows() []Row {
	return slices.Concat(upgradeRows(), messageRows(), bombRows(), frameRows(), floodRows(), tokenRows(), bulkRows(),
		executorRows(), lineRows(), startRows())
}
