package api

// Health is the answer of GET /v1/health. A client must take a missing busy,
// execs, hooks, hooks_dropped, identity_steps or image_env_keys as its zero
// value: older daemons do not send them (wire facts, section 6).
type Health struct {
	Version          string            `json:"version"`
	Bootstrapped     bool              `json:"bootstrapped"`
	Disk             *DiskHealth       `json:"disk"` // nil: free space could not be measured, which is not zero
	IdentityDegraded bool              `json:"identity_degraded"`
	IdentityRepaired bool              `json:"identity_repaired"`
	Busy             bool              `json:"busy" default:"false"`
	Execs            uint              `json:"execs" default:"0"`
	Hooks            []HookObservation `json:"hooks" default:"[]"` // oldest first, at most the log's cap
	HooksDropped     uint64            `json:"hooks_dropped" default:"0"`
	IdentitySteps    []IdentityStep    `json:"identity_steps" default:"[]"`
	ImageEnvKeys     *uint             `json:"image_env_keys" default:"null"` // nil: no snapshot
}

// DiskHealth is the free space of the daemon's working filesystem, in bytes.
type DiskHealth struct {
	AvailableBytes uint64 `json:"available_bytes"`
	ReserveBytes   uint64 `json:"reserve_bytes"`
	UnderPressure  bool   `json:"under_pressure"` // reserve > 0 and available < reserve
}

// HookObservation is one entry of the hook log. It proves that a request
// arrived, neither that it succeeded nor that the platform sent it.
type HookObservation struct {
	Hook    string          `json:"hook"`
	FiredAt uint64          `json:"fired_at"` // seconds since the epoch on the daemon's clock
	Handler *HandlerOutcome `json:"handler,omitempty"`
}

// HandlerOutcome is what the image's handler for a hook did.
type HandlerOutcome struct {
	ExitCode   *int32  `json:"exit_code"` // nil: killed or never started
	Signal     *int32  `json:"signal" default:"null"`
	TimedOut   bool    `json:"timed_out" default:"false"`
	DurationMS uint64  `json:"duration_ms"`
	Error      *string `json:"error,omitempty"` // why it could not run
}

// IdentityStep is one step of identity repair.
type IdentityStep struct {
	Name    string  `json:"name"`
	Outcome string  `json:"outcome"` // repaired, not_applicable or failed
	Error   *string `json:"error,omitempty"`
}

// RunHookEnvelope is the body of the run hook. The string is JSON itself, one
// parse deeper.
type RunHookEnvelope struct {
	RunHookPayload *string `json:"runHookPayload"`
}

// Keys of the object inside RunHookEnvelope.RunHookPayload.
const (
	PayloadToken              = "agent_token"
	PayloadEnv                = "env"
	PayloadIdentitySeed       = "identity_seed"
	PayloadIdentityHostPublic = "identity_host_public_key"
)
