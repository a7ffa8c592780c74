// Package hooks holds the daemon's one-shot bootstrap and its log of lifecycle
// hooks (wire facts, section 4).
//
//	           run hook, any well-formed payload
//	no token ───────────────────────────────────▶ token installed
//	  every bearer request: 503                     same token: 200, nothing changes
//	                                                other token: 409, nothing changes
//	                                                bearer requests: judged
//
// Nothing leads back. The platform presents no credential on the hooks, and a
// process in the VM can post them as well, so the defence is that exactly one
// bootstrap succeeds.
package hooks

import (
	"crypto/subtle"
	"strings"
	"sync"
	"time"

	"microvms/agentd/api"
)

// Decision is how a well-formed run hook was judged.
type Decision int

// The decisions.
const (
	Installed  Decision = iota // the first: token, environment and identity are in force
	Replayed                   // the same token again: nothing changed
	Conflicted                 // another token: nothing changed
)

// String returns the decision as a fixed word.
func (d Decision) String() string {
	return [...]string{"install", "replay", "conflict"}[d]
}

// Verdict is how a bearer was judged.
type Verdict int

// The verdicts.
const (
	Closed       Verdict = iota // no token is installed yet
	Unauthorized                // missing, malformed or wrong bearer
	Authorized
)

// String returns the verdict as a fixed word.
func (v Verdict) String() string {
	return [...]string{"closed", "unauthorized", "authorized"}[v]
}

// Bootstrap is the installed payload and the hook log. All methods are safe
// for concurrent use, and a panic under a lock leaves it usable.
type Bootstrap struct {
	cap int

	mu        sync.RWMutex
	installed *Payload              // written once, as a whole; never modified after
	log       []api.HookObservation // the earliest entries, at most cap
	dropped   uint64
}

// New returns a Bootstrap without a token whose log keeps the first entries
// entries.
func New(entries int) *Bootstrap { return &Bootstrap{cap: entries} }

// Observe enters a hook request into the log, or counts it as dropped once the
// log is full: the earliest entries are the platform's own, later ones may be
// spam from inside the VM. It reports whether the entry was kept, and its place
// in the log for Finish. then, if not nil, is called under the lock.
func (b *Bootstrap) Observe(hook string, at time.Time, then func(kept bool)) (entry int, kept bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// HOOK-2: the earliest are kept, since later ones may be spam from inside the VM.
	if kept = len(b.log) < b.cap; kept {
		b.log = append(b.log, api.HookObservation{Hook: hook, FiredAt: uint64(max(at.Unix(), 0))})
	} else {
		b.dropped++
	}
	if then != nil {
		then(kept)
	}
	return len(b.log) - 1, kept
}

// Finish puts what the hook's handler did on its kept entry. o must not be
// changed afterwards. then, if not nil, is called under the lock.
func (b *Bootstrap) Finish(entry int, o *api.HandlerOutcome, then func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.log[entry].Handler = o
	if then != nil {
		then()
	}
}

// Decide judges a well-formed payload and, for the first, installs token,
// environment and identity as one value. then, if not nil, is called under the
// lock.
func (b *Bootstrap) Decide(p Payload, then func(Decision)) Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := Conflicted
	switch {
	case b.installed == nil:
		// AGENTD-2: test and installation share one critical section, so that
		// of two racing hooks exactly one installs.
		// HOOK-11: one pointer holds token, environment and identity.
		b.installed, d = &p, Installed
	case equal(b.installed.Token, p.Token):
		// AGENTD-4, HOOK-12: the platform may retry a hook whose answer was lost; the
		// retry's environment and identity are ignored, the first are in use.
		d = Replayed
	}
	// AGENTD-3: any other token falls through and changes nothing.
	if then != nil {
		then(d)
	}
	return d
}

// Authorize judges the values of a request's Authorization headers. then, if
// not nil, is called under the lock.
func (b *Bootstrap) Authorize(values []string, then func(Verdict)) Verdict {
	b.mu.RLock()
	defer b.mu.RUnlock()
	v := Unauthorized
	switch {
	case b.installed == nil:
		// AGENTD-1: closed whatever was presented; there is nothing to compare with.
		v = Closed
	case len(values) == 1 && bearerIs(values[0], b.installed.Token):
		v = Authorized // AGENTD-6, AUTHZ-9: the token of the first bootstrap, and nothing else, leads here
	}
	// AGENTD-5, AUTHZ-2, AUTHZ-8: everything else is refused, two headers included: which of
	// them a proxy judged is not known here.
	if then != nil {
		then(v)
	}
	return v
}

// Bearer splits a header value at its first space. It reports false unless the
// scheme is bearer in any case. The token is neither trimmed nor decoded.
func Bearer(value string) (token string, ok bool) {
	scheme, token, found := strings.Cut(value, " ")
	if !found || len(scheme) != len("bearer") {
		return "", false
	}
	for i := range len(scheme) {
		if scheme[i]|0x20 != "bearer"[i] {
			return "", false
		}
	}
	return token, true // AUTHZ-3: neither trimmed nor decoded, so that a secret has one spelling
}

func bearerIs(value, token string) bool {
	presented, ok := Bearer(value)
	return ok && equal(presented, token)
}

// equal compares in constant time; only a difference in length shows early.
func equal(a, b string) bool {
	// AUTHZ-1: a comparison that stops early would tell how much of a guess was right.
	return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// Bootstrapped reports whether a token is installed.
func (b *Bootstrap) Bootstrapped() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.installed != nil // HEALTH-2: the same pointer by which requests are judged
}

// Env returns the launch environment, nil before bootstrap. The map is shared
// and must not be written.
func (b *Bootstrap) Env() map[string]string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.installed == nil {
		return nil
	}
	return b.installed.Env
}

// Identity returns the identity that the winning launch brought, nil for none.
func (b *Bootstrap) Identity() *Identity {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.installed == nil {
		return nil
	}
	return b.installed.Identity
}

// Log returns a copy of the kept entries, oldest first, and the number of
// dropped ones. The outcomes in it are shared and must not be changed.
func (b *Bootstrap) Log() ([]api.HookObservation, uint64) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	// HEALTH-5: in the order of arrival, as one copy under the lock.
	return append([]api.HookObservation{}, b.log...), b.dropped
}
