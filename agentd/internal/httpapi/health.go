package httpapi

import (
	"net/http"

	"golang.org/x/sys/unix"

	"microvms/agentd/api"
	"microvms/agentd/internal/identity"
)

// health serves GET /v1/health: always 200, without a bearer, before bootstrap
// too. It carries counts and facts, never a value of the workload.
func (s *Server) health(a *answer, _ *request) {
	registered, busy := s.config.Registry.Counts()
	observed, dropped := s.config.Boot.Log()
	keys := uint(len(s.config.ImageEnv)) // AGENTD-13: a count, since health is open to everyone
	// ACCOUNT-8, HEALTH-10: an image user counts as one, because uploads must be
	// handed to it just the same.
	if s.config.DefaultUser.Configured() {
		a.Header()[api.HeaderDefaultUser] = []string{"1"}
	}
	if s.mayPowerOff() { // POWER-1, HEALTH-9: asked anew, because the capability may go
		a.Header()[api.HeaderPowerOffExit] = []string{"1"}
	}
	// HEALTH-1: always 200: who asks has no bearer yet, or none at all.
	// HEALTH-4, HEALTH-8, SECRET-3: counts and facts, never a value of the workload.
	steps := []api.IdentityStep{}
	repaired := s.repair.Load()
	if repaired != nil {
		steps = *repaired
	}
	a.json(http.StatusOK, &api.Health{
		Version:          s.config.Version,
		Bootstrapped:     s.config.Boot.Bootstrapped(),
		Disk:             measureDisk(".", uint64(s.limits.DiskReserveBytes)),
		Busy:             busy,
		Execs:            uint(registered),
		Hooks:            observed,
		HooksDropped:     dropped,
		IdentityDegraded: identity.Degraded(steps),
		IdentityRepaired: repaired != nil, // IDENTITY-4: it ran on this VM, whatever its steps came to
		IdentitySteps:    steps,
		ImageEnvKeys:     &keys,
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
