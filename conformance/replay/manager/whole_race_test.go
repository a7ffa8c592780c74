//go:build race

package manager

import (
	"microvms/conformance/replay"
	"microvms/model/manager"
)

// transitions covers (action, abstract state) pairs: under the race detector the
// replays of whole graphs take minutes, and verify replays them without it.
func transitions(s *replay.Spec[manager.State]) { s.Cover.Abstract = Coarse }

// fine covers coarse pairs, for the same reason.
func fine(s *replay.Spec[manager.State]) { s.Cover.Abstract = Coarse }
