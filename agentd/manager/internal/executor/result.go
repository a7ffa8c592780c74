package executor

import (
	"errors"
	"fmt"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
)

// hashBytes is the length of an execution hash and of a small hash.
const hashBytes = 32

// judge validates a reported result: one byte for its kind and a map (manager
// facts, section 8). It returns the result, and the blob to hand on: a fatal
// VM error is handed on as a VM error, in the byte and in the map, so that both
// still agree.
func judge(blob []byte) (*msp.ReportedResult, []byte, error) {
	if len(blob) == 0 {
		return nil, nil, errors.New("the result is empty")
	}
	var r msp.ReportedResult
	if err := calldata.Unmarshal(blob[1:], &r); err != nil {
		return nil, nil, err
	}
	if code, ok := r.Kind.Code(); !ok || code != blob[0] {
		return nil, nil, fmt.Errorf("the result's code %d does not stand for its kind %q", blob[0], r.Kind)
	}
	if r.Kind != msp.ResultInternalError && (len(r.ExecutionHash) != hashBytes || len(r.SmallHash) != hashBytes) {
		return nil, nil, fmt.Errorf("a hash of the result has %d and %d bytes, not %d", len(r.ExecutionHash), len(r.SmallHash), hashBytes)
	}
	if r.Kind != msp.ResultFatalVMError {
		return &r, blob, nil
	}
	// EXECUTOR-34: clients refuse the code of a fatal error.
	r.Kind = msp.ResultVMError
	code, _ := r.Kind.Code()
	out, err := calldata.Append([]byte{code}, &r)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot write the result: %w", err)
	}
	return &r, out, nil
}

// effects says what of a result is an effect, "" for none.
func effects(r *msp.ReportedResult) string {
	switch {
	case len(r.StorageChanges) > 0:
		return "storage changes"
	case len(r.Emissions) > 0:
		return "emissions"
	case len(r.NondetResults) > 0:
		return "nondeterministic results"
	case r.NondetDisagreement != nil:
		return "a nondeterministic disagreement"
	}
	return ""
}
