package httpapi

import (
	"context"
	"errors"

	"microvms/agentd/api"
	"microvms/agentd/execution"
	"microvms/agentd/trace"
)

// mayPowerOff reports whether this daemon can power the VM off right now.
func (s *Server) mayPowerOff() bool {
	return s.config.PowerOff != nil && s.config.MayPowerOff()
}

// cannotPowerOff refuses a start whose power-off could not follow.
func (s *Server) cannotPowerOff(req *api.StartRequest) *api.Error {
	if !req.PowerOffOnExit || s.mayPowerOff() {
		return nil
	}
	// EXEC-11: refused before the spawn; a command that could not be followed
	// by its power-off must not run.
	return &api.Error{Code: api.PowerOffUnavailable, Detail: "the daemon does not hold CAP_SYS_BOOT, so it cannot power off this VM"}
}

// powerOffAfter powers the VM off once the exec's result is stored and its
// group has ended. It is called right after the start, by the request that
// created the exec and that Shutdown waits for, and returns at once: Shutdown
// waits for the rest too.
func (s *Server) powerOffAfter(e *execution.Exec, id string) {
	wait := e.WatchGroup()
	s.tunnels.Go(func() {
		if err := wait(s.base); err != nil {
			if !errors.Is(err, context.Canceled) && !errors.Is(err, execution.ErrClosed) {
				s.log.Error("power-off on exit called off", "exec_id", id, "err", err)
			}
			return
		}
		point := trace.Point{Action: trace.PowerOff, Exec: id}
		if s.config.Gate != nil && s.config.Gate.Pass(s.base, point) != nil {
			return
		}
		// POWER-5: the capability may have gone since the start was accepted.
		if !s.mayPowerOff() {
			s.log.Error("power-off on exit called off", "exec_id", id, "err", "the daemon no longer holds CAP_SYS_BOOT")
			return
		}
		s.log.Info("powering off", "exec_id", id)
		s.record(point) // before: nothing is after it
		if err := s.config.PowerOff(); err != nil {
			s.log.Error("power-off failed", "exec_id", id, "err", err) // and the VM serves on
		}
	})
}
