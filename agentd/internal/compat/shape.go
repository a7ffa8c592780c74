package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Shape is a JSON value's shape with its references resolved, so that two
// definitions of one shape are equal whatever their names.
type Shape struct {
	// Type is the type as a table writes it: a JSON type with its format, such as
	// "integer uint64"; "array", "map" and "object"; constants and enumerations
	// as "one of a|b"; alternatives joined by " or ".
	Type     string
	Nullable bool
	Fields   map[string]*Field // of an object
	Elem     *Shape            // of an array's items or a map's values; nil for others
}

// Field is a field of an object.
type Field struct {
	Required   bool
	HasDefault bool
	*Shape
}

// node is a JSON schema of the kinds that the daemon's generator writes.
type node struct {
	Ref         string                    `json:"$ref,omitempty"`
	Type        jsontext.Value            `json:"type,omitempty"`
	Format      string                    `json:"format,omitempty"`
	Properties  map[string]node           `json:"properties,omitempty"`
	Required    []string                  `json:"required,omitempty"`
	Items       *node                     `json:"items,omitempty"`
	Values      *node                     `json:"additionalProperties,omitempty"`
	AnyOf       []node                    `json:"anyOf,omitempty"`
	OneOf       []node                    `json:"oneOf,omitempty"`
	Enum        []string                  `json:"enum,omitempty"`
	Const       *string                   `json:"const,omitempty"`
	Default     jsontext.Value            `json:"default,omitempty"`
	Minimum     jsontext.Value            `json:"minimum,omitempty"`
	Maximum     jsontext.Value            `json:"maximum,omitempty"`
	Description string                    `json:"description,omitempty"`
	Unknown     map[string]jsontext.Value `json:",embed"`
}

const refPrefix = "#/$defs/"

// resolve returns the shape of n. within holds the references on the way to n.
func resolve(defs map[string]node, n node, within []string) (*Shape, error) {
	for _, key := range slices.Sorted(maps.Keys(n.Unknown)) {
		// A keyword that no rule reads could hide a break: refused, not skipped.
		return nil, fmt.Errorf("cannot judge the keyword %q: teach package compat to read it", key)
	}
	if n.Ref != "" {
		def, ok := defs[strings.TrimPrefix(n.Ref, refPrefix)]
		if !ok || !strings.HasPrefix(n.Ref, refPrefix) {
			return nil, fmt.Errorf("cannot find the definition %q", n.Ref)
		}
		if slices.Contains(within, n.Ref) {
			return nil, fmt.Errorf("cannot judge %q: the definition contains itself", n.Ref)
		}
		// SCHEMA-12: the name ends here; only the shape is compared.
		return resolve(defs, def, append(slices.Clip(within), n.Ref))
	}
	if branches := append(slices.Clip(n.AnyOf), n.OneOf...); len(branches) > 0 {
		return alternatives(defs, branches, within)
	}
	return plain(defs, n, within)
}

// plain resolves a shape that is neither a reference nor a choice.
func plain(defs map[string]node, n node, within []string) (*Shape, error) {
	s := &Shape{}
	word, err := s.jsonType(n)
	if err != nil {
		return nil, err
	}
	switch {
	case n.Const != nil:
		s.Type = "one of " + *n.Const
	case n.Enum != nil:
		s.Type = "one of " + strings.Join(n.Enum, "|")
	case word == "array" && n.Items != nil:
		s.Type = "array"
		s.Elem, err = resolve(defs, *n.Items, within)
	case word == "object" && n.Values != nil:
		s.Type = "map"
		s.Elem, err = resolve(defs, *n.Values, within)
	case word == "object":
		s.Type = "object"
		err = s.object(defs, n, within)
	case n.Properties != nil || n.Items != nil || n.Values != nil:
		return nil, fmt.Errorf("cannot judge a %s with properties, items or values", word)
	default:
		s.Type = strings.TrimSuffix(word+" "+n.Format, " ")
	}
	return s, err
}

func (s *Shape) object(defs map[string]node, n node, within []string) error {
	s.Fields = make(map[string]*Field, len(n.Properties))
	for name, p := range n.Properties {
		shape, err := resolve(defs, p, within)
		if err != nil {
			return fmt.Errorf("field %q: %w", name, err)
		}
		s.Fields[name] = &Field{Required: slices.Contains(n.Required, name), HasDefault: p.Default != nil, Shape: shape}
	}
	for _, name := range n.Required {
		if s.Fields[name] == nil {
			return fmt.Errorf("cannot judge the required field %q: it has no shape", name)
		}
	}
	return nil
}

// jsonType reads the type keyword: a word, or a word and "null".
func (s *Shape) jsonType(n node) (string, error) {
	var word string
	if json.Unmarshal(n.Type, &word) == nil && word != "" {
		s.Nullable = word == "null"
		return word, nil
	}
	var words []string
	if err := json.Unmarshal(n.Type, &words); err != nil || len(words) != 2 || words[1] != "null" {
		return "", fmt.Errorf("cannot judge the type %s: want one type, or one and null", n.Type)
	}
	s.Nullable = true
	return words[0], nil
}

// alternatives resolves a choice. Beside null it may hold one shape of any
// kind, or several that have no fields.
func alternatives(defs map[string]node, branches []node, within []string) (*Shape, error) {
	var shapes []*Shape
	nullable := false
	for _, b := range branches {
		s, err := resolve(defs, b, within)
		if err != nil {
			return nil, err
		}
		nullable = nullable || s.Nullable
		if s.Type != "null" {
			shapes = append(shapes, s)
		}
	}
	if len(shapes) == 1 {
		one := *shapes[0]
		one.Nullable = nullable
		return &one, nil
	}
	all := &Shape{Nullable: nullable}
	for i, s := range shapes {
		if s.Fields != nil || s.Elem != nil {
			return nil, fmt.Errorf("cannot judge a choice between %d shapes of which one is an %s", len(shapes), s.Type)
		}
		rest, constant := strings.CutPrefix(s.Type, "one of ")
		switch {
		case i == 0:
			all.Type = s.Type
		case constant && strings.HasPrefix(all.Type, "one of "):
			all.Type += "|" + rest
		default:
			all.Type += " or " + s.Type
		}
	}
	return all, nil
}
