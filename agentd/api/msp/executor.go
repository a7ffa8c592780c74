package msp

import "microvms/agentd/calldata"

// HostIndex is the number of a host connection. It is a type of its own so that
// an array of them is an array, not bytes.
type HostIndex uint8

// HostMethod is a method of the executor's host protocol (manager facts,
// section 8). Its numbers are little-endian, unlike those of this protocol.
type HostMethod uint8

// The host methods.
const (
	HostStorageRead HostMethod = iota
	HostConsumeFuel
	HostEthCall
	HostGetBalance
	HostRemainingFuel
	HostNotifyDisagreement
	HostConsumeResult
	HostResolveExecutor
	HostRunNested
	HostMethods = 9 // how many there are
)

// MethodHosts says which host answers each host method.
type MethodHosts [HostMethods]HostIndex

// NewMethodHosts sends results, nested runs and, unless they are hooked, calls
// across contracts to the manager, and everything else to host 0.
func NewMethodHosts(hooked bool) MethodHosts {
	m := MethodHosts{HostConsumeResult: 1, HostResolveExecutor: 1, HostRunNested: 1}
	if hooked {
		m[HostResolveExecutor] = 0
	}
	return m
}

// ExecutionData is what an executor reads from its stdin (manager facts,
// section 4.5).
type ExecutionData struct {
	BucketTotals         []calldata.Int    `calldata:"bucket_totals"`
	Calldata             []byte            `calldata:"calldata"`
	Code                 []byte            `calldata:"code,null"`
	GasData              map[string]string `calldata:"gas_data"`
	HostData             string            `calldata:"host_data"`
	HostHello            [][]byte          `calldata:"host_hello_data"`
	InitialTimeUnits     uint32            `calldata:"initial_time_units_allocation"`
	LeaderNondetResults  [][]byte          `calldata:"leader_nondet_results,null"`
	Message              Call              `calldata:"message"`
	MessageFeeAllocation []FeeNode         `calldata:"message_fee_allocation"`
	MethodHosts          MethodHosts       `calldata:"method_hosts"`
	// Nested is null for a run that a request asked for.
	Nested             calldata.Raw `calldata:"nested"`
	RecordActions      []string     `calldata:"record_actions"`
	RemainingRecursion *uint32      `calldata:"remaining_recursion"`
}

// ExecutionData is what the executor of the request reads. It shares the
// request's memory.
func (r *RunRequest) ExecutionData() *ExecutionData {
	d := &ExecutionData{BucketTotals: r.BucketTotals, Calldata: r.Calldata, Code: r.Code, GasData: r.GasData, HostData: r.HostData,
		HostHello: r.HostHello, InitialTimeUnits: r.InitialTimeUnits, LeaderNondetResults: r.LeaderNondetResults, Message: r.Message,
		MessageFeeAllocation: r.MessageFeeAllocation, MethodHosts: NewMethodHosts(r.HookCalls), RecordActions: r.RecordActions}
	if r.DebugMode.AtLeast(DebugUnsafe) {
		d.RemainingRecursion = r.UnsafeOverrides.InitialRecursion
	}
	return d
}

// ResultKind says how a contract ended. Each has a leading octet on the wire.
type ResultKind string

// The kinds of results.
const (
	ResultReturn        ResultKind = "Return"
	ResultUserError     ResultKind = "UserError"
	ResultVMError       ResultKind = "VmError"
	ResultInternalError ResultKind = "InternalError"
	ResultFatalVMError  ResultKind = "FatalVmError"
)

// Variants lists the kinds in the order of their octets.
func (ResultKind) Variants() []string {
	return []string{string(ResultReturn), string(ResultUserError), string(ResultVMError), string(ResultInternalError), string(ResultFatalVMError)}
}

// Code is the leading octet of the kind and true if it is known.
func (k ResultKind) Code() (byte, bool) {
	for i, v := range k.Variants() {
		if v == string(k) {
			return byte(i), true
		}
	}
	return 0, false
}

// ReportedResult is what an executor hands to consume_result after the octet of
// its kind.
type ReportedResult struct {
	Backtrace          []Frame              `calldata:"backtrace,null"`
	Data               calldata.Raw         `calldata:"data"` // any value
	FeesConsumed       FeesConsumed         `calldata:"data_fees_consumed"`
	FeesRemaining      []calldata.U256      `calldata:"data_fees_remaining"`
	Emissions          []Emission           `calldata:"emissions"`
	ExecutionHash      []byte               `calldata:"execution_hash"`
	Kind               ResultKind           `calldata:"kind"`
	LLMConsumption     calldata.U256        `calldata:"llm_consumption"`
	NondetDisagreement *uint32              `calldata:"nondet_disagreement"`
	NondetResults      [][]byte             `calldata:"nondet_results"`
	SmallHash          []byte               `calldata:"small_hash"`
	StorageChanges     []StorageChange      `calldata:"storage_changes"`
	WasmStoreHashes    map[string]WasmStore `calldata:"wasm_store_hashes"`
}

// Frame is a line of a backtrace.
type Frame struct {
	Func   uint32 `calldata:"func"`
	Module string `calldata:"module_name"`
}

// FeesConsumed are the fees by what they were paid for.
type FeesConsumed struct {
	Event          calldata.U256 `calldata:"event"`
	MessageFee     calldata.U256 `calldata:"message_fee"`
	MessageReceipt calldata.U256 `calldata:"message_receipt"`
	NondetOutput   calldata.U256 `calldata:"nondet_output"`
	Storage        calldata.U256 `calldata:"storage"`
}

// StorageChange is a pair: where, and what is written there.
type StorageChange struct {
	_     struct{} `calldata:",array"`
	Key   [36]byte `calldata:"key"`
	Value []byte   `calldata:"value"`
}

// WasmStore holds the hashes of a module's memories.
type WasmStore struct {
	Memories [][32]byte `calldata:"memories"`
}

// StateMode says which state a nested run reads.
type StateMode string

// Variants lists the modes.
func (StateMode) Variants() []string { return []string{"Default", "LatestFinal", "LatestNonFinal"} }

// NestedRequest is the envelope of run_nested.
type NestedRequest struct {
	Routing            []byte             `calldata:"routing_payload"` // an encoded Selector
	Calldata           []byte             `calldata:"calldata"`
	Message            Call               `calldata:"message"`
	Stack              []calldata.Address `calldata:"stack"`
	Permissions        uint32             `calldata:"permissions"` // bits
	StateMode          StateMode          `calldata:"state_mode"`
	TopmostRunnerID    string             `calldata:"topmost_runner_id"`
	RemainingRecursion uint32             `calldata:"remaining_recursion"`
	RemainingDetFuel   calldata.U256      `calldata:"remaining_det_fuel"`
	MemoryLimit        uint32             `calldata:"memory_limit"`
}

// NestedReply answers run_nested.
type NestedReply struct {
	Result     NestedResult `calldata:"result"`
	SmallHash  []byte       `calldata:"small_hash"`
	EffectFree bool         `calldata:"effect_free"`
}

// NestedResult is how a nested run ended.
type NestedResult struct {
	Kind ResultKind   `calldata:"kind"`
	Data calldata.Raw `calldata:"data"`
}
