package httpapi

import (
	"net/http"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
)

// health serves GET /v1/health: always 200, without a bearer, before bootstrap
// too. It carries counts and facts, never a value of the workload.
func (s *Server) health(a *answer, _ *request) {
	registered, busy := s.config.Registry.Counts()
	observed, dropped := s.config.Boot.Log()
	keys := uint(len(s.config.ImageEnv))
	if s.config.RefuseOmittedUser != "" {
		// HEALTH-10: a start without a user is not root here.
		a.Header()[api.HeaderDefaultUser] = []string{"1"}
	}
	// HEALTH-1: always 200: who asks has no bearer yet, or none at all.
	// HEALTH-4, HEALTH-8, SECRET-3: counts and facts, never a value of the workload.
	// HEALTH-9: without the power-off header, because this daemon refuses each power-off.
	a.json(http.StatusOK, &api.Health{
		Version:       s.config.Version,
		Bootstrapped:  s.config.Boot.Bootstrapped(),
		Disk:          measureDisk(".", uint64(s.limits.DiskReserveBytes)),
		Busy:          busy,
		Execs:         uint(registered),
		Hooks:         observed,
		HooksDropped:  dropped,
		IdentitySteps: []api.IdentityStep{},
		ImageEnvKeys:  &keys,
	})
}

// measureDisk returns the free space of path's filesystem, nil when it cannot
// be measured: unknown is not full.
func measureDisk(path string, reserve uint64) *api.DiskHealth {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return nil // HEALTH-7: unknown is not full
	}
	available := fs.Bavail * uint64(fs.Frsize)
	return &api.DiskHealth{
		AvailableBytes: available,
		ReserveBytes:   reserve,
		UnderPressure:  reserve > 0 && available < reserve,
	}
}
