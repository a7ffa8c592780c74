//go:build !race

package manager

import (
	"microvms/conformance/replay"
	"microvms/model/manager"
)

// transitions covers every transition.
func transitions(*replay.Spec[manager.State]) {}

// fine covers pairs of an action and a fine abstract state.
func fine(s *replay.Spec[manager.State]) { s.Cover.Abstract = Fine }
