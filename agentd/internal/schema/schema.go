// Package schema writes the daemon's description of itself (wire facts,
// section 12): routes from the route table, shapes from the Go types that the
// daemon encodes and decodes, limits from the running configuration. Keys are
// sorted at every level.
package schema

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"microvms/agentd/api"
)

// Dialect is the JSON Schema dialect of the definitions.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// Object is a JSON object whose keys are written in sorted order.
type Object = map[string]any

// Definitions collects the shapes that a document refers to.
type Definitions struct{ defs Object }

// New returns an empty collection.
func New() *Definitions { return &Definitions{defs: Object{}} }

// All returns the collected definitions by name.
func (d *Definitions) All() Object { return d.defs }

// Request returns the schema of a value that the daemon decodes: only what it
// demands is required.
func (d *Definitions) Request(v any) Object { return d.of(reflect.TypeOf(v), true) }

// Response returns the schema of a value that the daemon encodes: every key
// that it always sends is required.
func (d *Definitions) Response(v any) Object { return d.of(reflect.TypeOf(v), false) }

// Marshal encodes a document compactly with sorted keys.
func Marshal(doc Object) ([]byte, error) {
	// SCHEMA-3: sorted, because a map's own order changes from run to run.
	return json.Marshal(doc, json.Deterministic(true))
}

// Indent encodes a document as it is committed: sorted keys, two spaces a level
// and a final newline. compact is what Marshal returned.
func Indent(compact []byte) ([]byte, error) {
	text := jsontext.Value(slices.Clone(compact))
	if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, fmt.Errorf("cannot indent the schema: %w", err)
	}
	return append(text, '\n'), nil
}

// Seconds renders a duration in seconds as a JSON number with a fraction.
func Seconds(s float64) jsontext.Value {
	text := strconv.FormatFloat(s, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return jsontext.Value(text)
}

// special holds the types whose shape is not that of their fields.
var special = map[reflect.Type]struct {
	name  string
	shape Object
}{
	reflect.TypeFor[api.Phase](): {"Phase", Object{"oneOf": []any{
		constant(api.PhaseRunning), constant(api.PhaseExited), constant(api.PhaseAcked)}}},
	reflect.TypeFor[api.StreamKind](): {"StreamKind", Object{"type": "string", "enum": []any{api.StreamStdout, api.StreamStderr}}},
	reflect.TypeFor[api.NameOrID]():   {"NameOrId", Object{"anyOf": []any{scalar(reflect.Uint32), scalar(reflect.String)}}},
	reflect.TypeFor[api.Shell]():      {"Shell", Object{"anyOf": []any{scalar(reflect.Bool), scalar(reflect.String)}}},
}

func constant(v api.Phase) Object { return Object{"type": "string", "const": v} }

func (d *Definitions) of(t reflect.Type, request bool) Object {
	// SCHEMA-13: by reflection, so that a shape cannot differ from what is encoded.
	if s, ok := special[t]; ok {
		d.defs[s.name] = s.shape
		return ref(s.name)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nullable(d.of(t.Elem(), request))
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return Object{"type": "string"} // base64
		}
		return Object{"type": "array", "items": d.of(t.Elem(), request)}
	case reflect.Map:
		return Object{"type": "object", "additionalProperties": d.of(t.Elem(), request)}
	case reflect.Struct:
		if _, known := d.defs[t.Name()]; !known {
			d.defs[t.Name()] = nil // a name for recursion, replaced below
			d.defs[t.Name()] = d.object(t, request)
		}
		return ref(t.Name())
	}
	return scalar(t.Kind())
}

func ref(name string) Object { return Object{"$ref": "#/$defs/" + name} }

// nullable adds null to a shape.
func nullable(shape Object) Object {
	if word, ok := shape["type"].(string); ok {
		shape["type"] = []any{word, "null"}
		return shape
	}
	return Object{"anyOf": []any{shape, Object{"type": "null"}}}
}

func scalar(k reflect.Kind) Object {
	switch k {
	case reflect.String:
		return Object{"type": "string"}
	case reflect.Bool:
		return Object{"type": "boolean"}
	case reflect.Float64:
		return Object{"type": "number", "format": "double"}
	case reflect.Int32:
		return Object{"type": "integer", "format": "int32"}
	case reflect.Uint16:
		return Object{"type": "integer", "format": "uint16", "minimum": 0, "maximum": math.MaxUint16}
	case reflect.Uint, reflect.Uint32, reflect.Uint64:
		return Object{"type": "integer", "format": k.String(), "minimum": 0}
	}
	panic("schema: internal error: no shape for " + k.String())
}

// object describes a struct by its fields and their tags: json for the name,
// default for the default as JSON text, schema:"required" in requests.
func (d *Definitions) object(t reflect.Type, request bool) Object {
	properties, required := Object{}, []any{}
	d.fields(t, request, true, properties, &required)
	shape := Object{"type": "object", "properties": properties}
	if len(required) > 0 {
		shape["required"] = required
	}
	return shape
}

func (d *Definitions) fields(t reflect.Type, request, always bool, properties Object, required *[]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			// Present together or not at all, so nothing of it is required.
			d.fields(f.Type.Elem(), request, false, properties, required)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		shape := d.of(f.Type, request)
		if def, ok := f.Tag.Lookup("default"); ok {
			shape["default"] = jsontext.Value(def)
		}
		properties[name] = shape
		if (request && f.Tag.Get("schema") == "required") || (!request && always && options == "") {
			*required = append(*required, name)
		}
	}
}
