package msp

import (
	"fmt"

	"microvms/agentd/calldata"
)

// RunRequest asks for an execution. Its tags are the one table of the request's
// schema (manager facts, section 3.1): names, types, defaults. NewRunRequest
// gives one with the defaults set.
//
// CALLDATA-23: one table for one revision, because later ones changed the shapes
// of fields, too.
type RunRequest struct {
	Selector Selector `calldata:"selector"` // which executor
	Message  Call     `calldata:"message"`
	// IsSync adds --sync; no modules are needed then.
	IsSync    bool      `calldata:"is_sync"`
	DebugMode DebugMode `calldata:"debug_mode,default=disabled"`
	// MaxExecutionMinutes is the deadline when Deadline is nil; at most 1440
	// count.
	MaxExecutionMinutes uint64 `calldata:"max_execution_minutes,default=20"`
	// Deadline counts from acceptance, time in the queue included; at most 24 h
	// count.
	Deadline     *Duration      `calldata:"deadline,default"`
	BucketTotals []calldata.Int `calldata:"bucket_totals"`
	// HostData is JSON text. The manager reads it only when modules are needed.
	HostData  string    `calldata:"host_data"`
	Timestamp Timestamp `calldata:"timestamp"` // gates version resolution
	// Host is host connection 0: unix://path or host:port. EXECUTOR-2: the
	// manager refuses fd://N.
	Host      string   `calldata:"host"`
	ExtraArgs []string `calldata:"extra_args,default"`
	Calldata  []byte   `calldata:"calldata"`
	Code      []byte   `calldata:"code,null"` // nil: null
	// Permissions are letters, of which the manager reads only n.
	Permissions     string          `calldata:"permissions,default=wscn"`
	NoModules       bool            `calldata:"no_modules,default"`
	UnsafeOverrides UnsafeOverrides `calldata:"unsafe_overrides,default"`
	// LeaderNondetResults is nil for a leader.
	LeaderNondetResults  [][]byte          `calldata:"leader_nondet_results,null"`
	GasData              map[string]string `calldata:"gas_data,default"`
	MessageFeeAllocation []FeeNode         `calldata:"message_fee_allocation,default"`
	InitialTimeUnits     uint32            `calldata:"initial_time_units_allocation"`
	RecordActions        []string          `calldata:"record_actions,default"`
	// Token correlates the run's events, and makes a repeat of the request name
	// the same run while the manager knows it.
	Token *string `calldata:"host_genvm_id,default"`
	// HostHello holds what the executor writes to host i before its first
	// method. Entry 1 is the manager's own connection and must be empty.
	HostHello [][]byte `calldata:"host_hello_data,default"`
	// HookCalls leaves resolve_callcontract_executor to host 0.
	HookCalls bool `calldata:"hook_cross_contract_calls,default"`
}

// Defaults of the request.
const (
	DefaultExecutionMinutes = 20
	MaxExecutionMinutes     = 1440
	DefaultPermissions      = "wscn"
)

// NewRunRequest is a request with every default set.
func NewRunRequest() *RunRequest {
	return &RunRequest{DebugMode: DebugDisabled, MaxExecutionMinutes: DefaultExecutionMinutes, Permissions: DefaultPermissions,
		Message: Call{Datetime: DefaultDatetime()}}
}

// CheckCalldata refuses a greeting for the manager's own connection (manager
// facts, section 3.5).
func (r *RunRequest) CheckCalldata() error {
	// CALLDATA-21: a greeting there would be taken for a method of the executor.
	if len(r.HostHello) > 1 && len(r.HostHello[1]) > 0 {
		return fmt.Errorf("host_hello_data[1] must be empty: host 1 is the manager's")
	}
	return nil
}

// NeedsModules reports whether the run needs the LLM and web modules.
func (r *RunRequest) NeedsModules() bool {
	if r.NoModules || r.IsSync {
		return false
	}
	for _, c := range r.Permissions {
		if c == 'n' {
			return true
		}
	}
	return false
}

// DebugMode controls capture and gates overrides.
type DebugMode string

// The debug modes, in their order.
const (
	DebugDisabled      DebugMode = "disabled"
	DebugSafe          DebugMode = "safe"
	DebugSafeUnbounded DebugMode = "safe-unbounded"
	DebugUnsafe        DebugMode = "unsafe"
	DebugUnsafeTracing DebugMode = "unsafe-tracing"
)

// Variants lists the modes in their order.
func (DebugMode) Variants() []string {
	return []string{string(DebugDisabled), string(DebugSafe), string(DebugSafeUnbounded), string(DebugUnsafe), string(DebugUnsafeTracing)}
}

// AtLeast reports whether m is n or a later mode. An unknown mode is none.
func (m DebugMode) AtLeast(n DebugMode) bool {
	reached := false
	for _, v := range m.Variants() {
		reached = reached || v == string(n)
		if v == string(m) {
			return reached
		}
	}
	return false
}

// UnsafeOverrides are ignored below the debug mode that each needs.
type UnsafeOverrides struct {
	RerouteTo        string  `calldata:"reroute_to,default"`        // from safe on; a version
	InitialRecursion *uint32 `calldata:"initial_recursion,default"` // from unsafe on
}

// Call is the transaction context of a run, the field message.
type Call struct {
	ContractAddress calldata.Address `calldata:"contract_address"`
	SenderAddress   calldata.Address `calldata:"sender_address"`
	OriginAddress   calldata.Address `calldata:"origin_address"`
	SignerAddress   calldata.Address `calldata:"signer_address"`
	ChainID         calldata.Int     `calldata:"chain_id"`
	Value           calldata.Int     `calldata:"value"`
	IsInit          bool             `calldata:"is_init"`
	Datetime        Timestamp        `calldata:"datetime,default=2024-11-26T06:42:42.424242Z"`
}

// Selector says which executor runs: the best of a major line, or one version.
type Selector struct {
	IsVersion bool // Version counts, not Major
	Major     uint32
	// Version is a directory name, or a regular expression after "re:".
	Version string
}

type (
	selectorMajor struct {
		Kind  selectorTag `calldata:"kind"`
		Major uint32      `calldata:"major"`
	}
	selectorVersion struct {
		Kind    selectorTag `calldata:"kind"`
		Version string      `calldata:"version"`
	}
	selectorTag string
)

// Variants lists the kinds of selectors.
func (selectorTag) Variants() []string { return []string{"major", "version"} }

// MarshalCalldata writes the flat map that the kind demands.
func (s Selector) MarshalCalldata(w *calldata.Writer) error {
	if s.IsVersion {
		return w.Value(selectorVersion{"version", s.Version})
	}
	return w.Value(selectorMajor{"major", s.Major})
}

// UnmarshalCalldata reads the flat map that the kind demands.
func (s *Selector) UnmarshalCalldata(r *calldata.Reader) error {
	ahead := *r
	var kind struct {
		Kind selectorTag `calldata:"kind"`
	}
	if err := ahead.ValueIgnoringUnknown(&kind); err != nil {
		return err
	}
	if kind.Kind == "version" {
		var v selectorVersion
		err := r.Value(&v)
		*s = Selector{IsVersion: true, Version: v.Version}
		return err
	}
	var m selectorMajor
	err := r.Value(&m)
	*s = Selector{Major: m.Major}
	return err
}

// FeeNode allots a fee to a message and to those that it causes.
type FeeNode struct {
	Recipient *calldata.Address `calldata:"recipient"`
	CallKey   *[32]byte         `calldata:"call_key"`
	Budget    calldata.U256     `calldata:"budget"`
	On        FeeMoment         `calldata:"on"`
	Params    FeeParams         `calldata:"fee_params"`
	Children  []FeeNode         `calldata:"children"`
}

// FeeMoment says when a fee falls due.
type FeeMoment string

// Variants lists the moments.
func (FeeMoment) Variants() []string { return []string{"finalized", "accepted"} }

// FeeParams are the prices of a message, inside the chain or to the outside.
// Exactly one field is set.
type FeeParams struct {
	_        struct{}     `calldata:",oneof"`
	Internal *InternalFee `calldata:"Internal"`
	External *ExternalFee `calldata:"External"`
}

// InternalFee prices a message inside the chain.
type InternalFee struct {
	LeaderTimeUnits         calldata.U256   `calldata:"leader_timeunits_allocation"`
	ValidatorTimeUnits      calldata.U256   `calldata:"validator_timeunits_allocation"`
	ExecutionBudgetPerRound calldata.U256   `calldata:"execution_budget_per_round"`
	Rotations               []calldata.U256 `calldata:"rotations"`
	MaxPricePerTimeUnit     calldata.U256   `calldata:"max_price_gen_per_time_unit"`
	StorageFeeMaxGasPrice   calldata.U256   `calldata:"storage_fee_max_gas_price"`
	ReceiptFeeMaxGasPrice   calldata.U256   `calldata:"receipt_fee_max_gas_price"`
}

// ExternalFee prices a message to the outside.
type ExternalFee struct {
	GasLimit    calldata.U256 `calldata:"gas_limit"`
	MaxGasPrice calldata.U256 `calldata:"max_gas_price"`
}
