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
	"io"
	"reflect"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"microvms/agentd/internal/lossy"
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

// lossyText makes every string UTF-8 on its way out.
var lossyText = json.JoinOptions(
	json.WithMarshalers(json.MarshalToFunc(func(enc *jsontext.Encoder, s string) error {
		if utf8.ValidString(s) {
			return errors.ErrUnsupported
		}
		return enc.WriteToken(jsontext.String(string(lossy.Append(nil, []byte(s)))))
	})),
	jsontext.AllowInvalidUTF8(true), // for strings of a named type and keys
)

// Marshal encodes v in the order of its fields. No text makes it fail: what is
// not UTF-8 is replaced as in a poll's output.
func Marshal(v any) ([]byte, error) {
	// XPORT-25: this encoder escapes nothing for HTML and writes no null for an empty list.
	// XPORT-33: an answer may repeat what a peer sent, and a peer may send any bytes.
	return json.Marshal(v, lossyText)
}

// Members calls f with each member of the JSON object in text, in the order of
// the text, until f returns false. It fails unless text is exactly one JSON
// object, with a *RepeatedKey for a key that is there twice, at any depth. The
// value is only valid during the call.
func Members(text []byte, f func(name string, value jsontext.Value) bool) error {
	// Validity is judged for the whole text before f sees anything, so that
	// the answer does not depend on where the text is broken.
	if err := oneObject(text); err != nil {
		return err
	}
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if !f(key, value) {
			break
		}
	}
	return nil
}

// errNotObject is what Members gets instead of an object.
var errNotObject = errors.New("not a JSON object")

// RepeatedKey is the error of an object that names a key twice.
type RepeatedKey struct {
	Key string // as it stands in the text, cut when it is long
}

func (e *RepeatedKey) Error() string { return fmt.Sprintf("the key %q is repeated", e.Key) }

func oneObject(text []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	v, err := dec.ReadValue()
	if err == nil && v.Kind() == '{' {
		if _, err = dec.ReadToken(); err == io.EOF {
			return nil
		}
	}
	var syntax *jsontext.SyntacticError
	if errors.Is(err, jsontext.ErrDuplicateName) && errors.As(err, &syntax) {
		return &RepeatedKey{cut(syntax.JSONPointer.LastToken())}
	}
	return errNotObject
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
