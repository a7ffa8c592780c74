// Package strictjson decodes request bodies as strictly as the wire contract
// asks (wire facts, sections 1 and 16): names match by exact case, a duplicate
// name, invalid UTF-8, a lone surrogate and bytes after the value are refused,
// and null is accepted only by pointers. Unknown names are ignored.
//
// It encodes answers without HTML escaping and with empty slices as [].
package strictjson

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errNull is what a null gets where the contract does not allow one.
var errNull = errors.New("null is not allowed here")

// noNull refuses null for every Go type but a pointer. The decoder calls it
// with a pointer to the value, at every depth.
var noNull = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v any) error {
	if dec.PeekKind() != 'n' {
		return errors.ErrUnsupported
	}
	if t := reflect.TypeOf(v); t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Pointer {
		return errors.ErrUnsupported
	}
	return errNull
}))

// Unmarshal decodes body, which must be exactly one JSON value, into v.
// Errors name the place, and may quote what stands there: they go to the
// caller who sent the body and never to a log.
func Unmarshal(body []byte, v any) error {
	// XPORT-14: this decoder matches by exact case and refuses duplicates; encoding/json does neither.
	return json.Unmarshal(body, v, noNull)
}

// Marshal encodes v in the order of its fields.
func Marshal(v any) ([]byte, error) {
	// XPORT-25: this encoder escapes nothing for HTML and writes no null for an empty list.
	return json.Marshal(v)
}

// Members calls f with each member of the JSON object in text, in the order of
// the text, until f returns false. It reports whether text is exactly one JSON
// object, duplicates refused. The value is only valid during the call.
func Members(text []byte, f func(name string, value jsontext.Value) bool) bool {
	// Validity is judged for the whole text before f sees anything, so that
	// the answer does not depend on where the text is broken.
	if v := jsontext.Value(text); !v.IsValid() || v.Kind() != '{' {
		return false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := dec.ReadToken(); err != nil {
		return false
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return false
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return false
		}
		if !f(key, value) {
			break
		}
	}
	return true
}

// Describe says where a body is wrong and how, without its values: a body may
// carry a token or an environment.
func Describe(err error) string {
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.Is(err, jsontext.ErrDuplicateName):
		return "the body repeats a key"
	case errors.As(err, &semantic):
		if semantic.JSONPointer == "" {
			return "the body is not the object that this route takes"
		}
		return fmt.Sprintf("the value at %q has the wrong type", cut(string(semantic.JSONPointer)))
	case errors.As(err, &syntax):
		return fmt.Sprintf("the body is not valid JSON at byte %d", syntax.ByteOffset)
	}
	return "the body is not valid JSON"
}

func cut(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}
