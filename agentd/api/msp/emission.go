package msp

import (
	"errors"
	"slices"

	"microvms/agentd/calldata"
)

// Emission is an effect that a contract asks for: a map whose entry type is one
// of four; the rest depends on it and stays encoded.
type Emission map[string]calldata.Raw

// EmissionTypes lists the types of emissions. The slice is fresh.
func EmissionTypes() []string {
	return []string{"EthSend", "PostMessage", "DeployContract", "EmitEvent"}
}

// Type is the entry type, empty if it is missing or no string.
func (e Emission) Type() string {
	var s string
	if calldata.Unmarshal(e["type"], &s) != nil {
		return ""
	}
	return s
}

// CheckCalldata refuses emissions of unknown type.
func (e *Emission) CheckCalldata() error {
	if !slices.Contains(EmissionTypes(), e.Type()) {
		return errors.New("unknown type of emission")
	}
	return nil
}
