package calldata

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
)

// FromJSON encodes a JSON text: null, booleans, strings, arrays and objects as
// they are, integers that fit 64 bits with or without sign as integers, and
// every other number as null, since calldata has none (manager facts, section
// 1.3). Of repeated keys the last counts.
func FromJSON(text []byte) (Raw, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("cannot read JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("cannot read JSON: something follows the value")
	}
	return Marshal(integers(v))
}

// integers replaces the numbers of a JSON value in place.
func integers(v any) any {
	switch v := v.(type) {
	case json.Number:
		// CALLDATA-22: a rounded number would pass for an exact one.
		if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
			return n
		}
		// "-0" is the float -0.0.
		if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n != 0 {
			return n
		}
		return nil
	case []any:
		for i := range v {
			v[i] = integers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = integers(v[k])
		}
	}
	return v
}
