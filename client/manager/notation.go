package manager

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"microvms/agentd/api/msp"
	"microvms/agentd/calldata"
	"microvms/client"
)

// ReadRequest reads a run request from YAML or JSON over the fields that into
// holds already: what the text does not name stays as it is. Keys are those of
// the wire (see msp.RunRequest). Values are written as usual, and further:
//
//   - bytes are a string after 0x (hexadecimal), base64: or text:, or a mapping,
//     a list or a number, which stand for their calldata
//   - addresses are 0x and 40 digits, durations as 1.5s, timestamps RFC 3339
//   - the selector is {kind: major, major: N} or {kind: version, version: NAME}
//
// Errors are of KindInvalidArg and name the line and the key, never a value.
// Aliases are refused.
func ReadRequest(text []byte, into *msp.RunRequest) error {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	switch err := decoder.Decode(&doc); {
	case err == io.EOF:
		return nil // an empty file names nothing
	case err != nil:
		return invalidArg("request: not YAML or JSON: %v", err)
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return invalidArg("request: holds more than one document")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if err := assignStruct(reflect.ValueOf(into).Elem(), root, "request"); err != nil {
		return &client.Error{Kind: client.KindInvalidArg, Err: err}
	}
	return nil
}

func at(n *yaml.Node, path, format string, args ...any) error {
	return fmt.Errorf("line %d: %s: %s", n.Line, path, fmt.Sprintf(format, args...))
}

// pairs gives the entries of a mapping.
func pairs(n *yaml.Node, path string) (keys []string, values []*yaml.Node, err error) {
	if n.Kind != yaml.MappingNode {
		return nil, nil, at(n, path, "want a mapping")
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag == "!!merge" {
			return nil, nil, at(key, path, "want plain keys")
		}
		if seen[key.Value] {
			return nil, nil, at(key, path, "the key %q stands twice", key.Value)
		}
		seen[key.Value] = true
		keys, values = append(keys, key.Value), append(values, n.Content[i+1])
	}
	return keys, values, nil
}

// assignStruct sets the fields that a mapping names, by their tags.
func assignStruct(v reflect.Value, n *yaml.Node, path string) error {
	keys, values, err := pairs(n, path)
	if err != nil {
		return err
	}
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("calldata"), ",")
		if name != "" {
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	for i, key := range keys {
		field, ok := fields[key]
		if !ok {
			return at(values[i], path, "no field %q; there are %s", key, strings.Join(names, ", "))
		}
		if err := assign(field, values[i], path+"."+key); err != nil {
			return err
		}
	}
	return nil
}

// assign sets a value of any type of the request.
func assign(v reflect.Value, n *yaml.Node, path string) error {
	null := n.Kind == yaml.ScalarNode && n.Tag == "!!null"
	if n.Kind == yaml.AliasNode {
		return at(n, path, "aliases are not read: write the value out")
	}
	switch p := v.Addr().Interface().(type) {
	case *msp.Selector:
		return assignSelector(p, n, path)
	case *[]byte:
		if null {
			*p = nil
			return nil
		}
		b, err := octets(n, path)
		*p = b
		return err
	case encoding.TextUnmarshaler:
		if n.Kind != yaml.ScalarNode || null {
			return at(n, path, "want a scalar")
		}
		if err := p.UnmarshalText([]byte(n.Value)); err != nil {
			return at(n, path, "%v", err)
		}
		return nil
	}
	if null && (v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map) {
		v.SetZero()
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		v.Set(elem)
		return assign(elem.Elem(), n, path)
	case reflect.Struct:
		return assignStruct(v, n, path)
	case reflect.Slice:
		return assignSlice(v, n, path)
	case reflect.Map:
		return assignMap(v, n, path)
	case reflect.Array: // of bytes: the request has no others
		b, err := octets(n, path)
		if err == nil && len(b) != v.Len() {
			err = at(n, path, "want %d bytes, have %d", v.Len(), len(b))
		}
		if err == nil {
			reflect.Copy(v, reflect.ValueOf(b))
		}
		return err
	}
	return assignScalar(v, n, path)
}

func assignScalar(v reflect.Value, n *yaml.Node, path string) error {
	if n.Kind != yaml.ScalarNode {
		return at(n, path, "want a scalar")
	}
	switch v.Kind() {
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return at(n, path, "want true or false")
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.String:
		// A number or a word such as yes is text where text is wanted.
		if n.Tag == "!!null" {
			return at(n, path, "want a text")
		}
		v.SetString(n.Value)
	default: // unsigned: the request has no others
		u, err := strconv.ParseUint(n.Value, 10, v.Type().Bits())
		if err != nil {
			return at(n, path, "want an integer from 0 to %d", ^uint64(0)>>(64-v.Type().Bits()))
		}
		v.SetUint(u)
	}
	return nil
}

func assignSlice(v reflect.Value, n *yaml.Node, path string) error {
	if n.Kind != yaml.SequenceNode {
		return at(n, path, "want a list")
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if err := assign(out.Index(i), item, fmt.Sprintf("%s[%d]", path, i)); err != nil {
			return err
		}
	}
	v.Set(out)
	return nil
}

func assignMap(v reflect.Value, n *yaml.Node, path string) error {
	keys, values, err := pairs(n, path)
	if err != nil {
		return err
	}
	out := reflect.MakeMap(v.Type())
	for i, key := range keys {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := assign(value, values[i], path+"."+key); err != nil {
			return err
		}
		out.SetMapIndex(reflect.ValueOf(key), value)
	}
	v.Set(out)
	return nil
}

func assignSelector(s *msp.Selector, n *yaml.Node, path string) error {
	var flat struct {
		Kind    string  `calldata:"kind"`
		Major   *uint32 `calldata:"major"`
		Version *string `calldata:"version"`
	}
	if err := assignStruct(reflect.ValueOf(&flat).Elem(), n, path); err != nil {
		return err
	}
	switch {
	case flat.Kind == "major" && flat.Major != nil && flat.Version == nil:
		*s = msp.Selector{Major: *flat.Major}
	case flat.Kind == "version" && flat.Version != nil && flat.Major == nil:
		*s = msp.Selector{IsVersion: true, Version: *flat.Version}
	default:
		return at(n, path, "want {kind: major, major: N} or {kind: version, version: NAME}")
	}
	return nil
}

// octets reads bytes: as text after a prefix, or as a value that stands for its
// calldata.
func octets(n *yaml.Node, path string) ([]byte, error) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		b, err := ParseBytes(n.Value)
		if err != nil {
			return nil, at(n, path, "%v", err)
		}
		return b, nil
	}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!binary" {
		b, err := base64.StdEncoding.DecodeString(n.Value)
		if err != nil {
			return nil, at(n, path, "not base64")
		}
		return b, nil
	}
	if n.Kind == yaml.ScalarNode && strings.HasPrefix(n.Value, "0x") {
		// YAML takes 0x12 for a number; here it is bytes, as with letters in it.
		return ParseBytes(n.Value)
	}
	value, err := tree(n, path, 0)
	if err != nil {
		return nil, err
	}
	b, err := calldata.Marshal(value)
	if err != nil {
		return nil, at(n, path, "%v", err)
	}
	return b, nil
}

// ParseBytes reads bytes after 0x (hexadecimal), base64: or text:.
func ParseBytes(text string) ([]byte, error) {
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("not hexadecimal after 0x")
		}
		return b, nil
	}
	if encoded, ok := strings.CutPrefix(text, "base64:"); ok {
		b, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("not base64 after base64:") //nolint:staticcheck // ST1005: the colon is part of the prefix
		}
		return b, nil
	}
	if plain, ok := strings.CutPrefix(text, "text:"); ok {
		return []byte(plain), nil
	}
	return nil, fmt.Errorf("bytes begin with 0x, base64: or text:") //nolint:staticcheck // ST1005: the colon is part of the prefix
}

// tree reads a value of any kind. Strings stay strings, except that 0x… with 40
// digits is an address and other forms of ParseBytes are bytes.
func tree(n *yaml.Node, path string, depth int) (any, error) {
	if depth > calldata.MaxDepth {
		return nil, at(n, path, "nested too deep")
	}
	switch n.Kind {
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			v, err := tree(item, fmt.Sprintf("%s[%d]", path, i), depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = v
		}
		return out, nil
	case yaml.MappingNode:
		keys, values, err := pairs(n, path)
		if err != nil {
			return nil, err
		}
		out := make(map[string]any, len(keys))
		for i, key := range keys {
			if out[key], err = tree(values[i], path+"."+key, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case yaml.ScalarNode:
		return leaf(n, path)
	}
	return nil, at(n, path, "aliases are not read: write the value out")
}

func leaf(n *yaml.Node, path string) (any, error) {
	var address calldata.Address
	switch {
	case n.Tag == "!!null":
		return nil, nil
	case n.Tag == "!!bool":
		return strings.EqualFold(n.Value, "true"), nil
	case strings.HasPrefix(n.Value, "0x") && address.UnmarshalText([]byte(n.Value)) == nil:
		return address, nil
	case n.Tag == "!!int":
		i, ok := new(big.Int).SetString(n.Value, 10)
		if !ok {
			return nil, at(n, path, "want a decimal integer")
		}
		return i, nil
	case n.Tag == "!!float":
		return nil, at(n, path, "calldata has no fractions")
	}
	if b, err := ParseBytes(n.Value); err == nil && n.Tag == "!!str" {
		return b, nil
	}
	return n.Value, nil
}
