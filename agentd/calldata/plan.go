package calldata

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Marshaler writes itself. It must write exactly one value.
type Marshaler interface {
	MarshalCalldata(w *Writer) error
}

// Unmarshaler reads itself. It must read exactly one value, and must not keep
// slices of it.
type Unmarshaler interface {
	UnmarshalCalldata(r *Reader) error
}

// Checker is what a type may say about values that are well formed but make no
// sense. CheckCalldata runs after a value was decoded and before it is encoded;
// its error must not repeat the value.
type Checker interface {
	CheckCalldata() error
}

// codec encodes and decodes one Go type. Both functions are set before the
// codec is used by anyone.
type codec struct {
	encode func(w *Writer, v reflect.Value) error
	decode func(r *Reader, v reflect.Value) error
}

// field is one field of a struct.
type field struct {
	name     string
	index    int
	key      []byte // encoded
	codec    *codec
	optional bool          // may be absent
	fallback reflect.Value // what it is then
	isSlice  bool
}

var (
	plans    sync.Map // reflect.Type → *codec
	planning sync.Mutex
)

// codecOf gives the codec of a type. A type that calldata cannot hold is a
// mistake of the program: it panics.
func codecOf(t reflect.Type) *codec {
	if c, ok := plans.Load(t); ok {
		return c.(*codec)
	}
	planning.Lock()
	defer planning.Unlock()
	b := builder{}
	c := b.codec(t, false)
	for t, c := range b {
		if t.nullable {
			continue
		}
		plans.LoadOrStore(t.Type, c)
	}
	return c
}

// planned names a codec: the type, and whether nil is null.
type planned struct {
	reflect.Type
	nullable bool
}

// builder holds the codecs of one walk, so that a type may contain itself.
type builder map[planned]*codec

var (
	marshalerType   = reflect.TypeFor[Marshaler]()
	unmarshalerType = reflect.TypeFor[Unmarshaler]()
	checkerType     = reflect.TypeFor[Checker]()
	textOutType     = reflect.TypeFor[encoding.TextMarshaler]()
	textInType      = reflect.TypeFor[encoding.TextUnmarshaler]()
	enumType        = reflect.TypeFor[interface{ Variants() []string }]()
	markerType      = reflect.TypeFor[struct{}]()
	byteType        = reflect.TypeFor[byte]()
)

func (b builder) codec(t reflect.Type, nullable bool) *codec {
	if c, ok := b[planned{t, nullable}]; ok {
		return c
	}
	c := new(codec)
	b[planned{t, nullable}] = c
	*c = b.plain(t)
	if nullable {
		*c = orNull(*c)
	}
	// A pointer's methods include those of its element, which does the check.
	if t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(checkerType) {
		*c = checked(*c)
	}
	return c
}

// plain is the codec of a type without options.
func (b builder) plain(t reflect.Type) codec {
	if c, ok := builtin(t); ok {
		return c
	}
	pointer := reflect.PointerTo(t)
	switch {
	case t.Kind() == reflect.Pointer:
		return b.pointer(t)
	case t.Implements(marshalerType) && pointer.Implements(unmarshalerType):
		return custom()
	case t.Implements(textOutType) && pointer.Implements(textInType):
		return text()
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolean()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return signed(t)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return unsigned(t)
	case reflect.String:
		return stringCodec(t)
	case reflect.Slice:
		if t.Elem() == byteType {
			return byteSlice()
		}
		return slice(t, b.codec(t.Elem(), false))
	case reflect.Array:
		if t.Elem() == byteType {
			return byteArray(t)
		}
		return array(t, b.codec(t.Elem(), false))
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapCodec(t, b.codec(t.Elem(), false))
		}
	case reflect.Struct:
		return b.structure(t)
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return codec{encodeAny, decodeAny}
		}
	}
	panic(fmt.Sprintf("calldata: internal error: no encoding for Go type %v", t))
}

// structure reads the tags of a struct.
func (b builder) structure(t reflect.Type) codec {
	var fields []field
	marker := ""
	for i := range t.NumField() {
		f := t.Field(i)
		tag, tagged := f.Tag.Lookup("calldata")
		if !tagged {
			if f.IsExported() {
				panic(fmt.Sprintf("calldata: internal error: field %v.%s has no tag", t, f.Name))
			}
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		if f.Name == "_" && f.Type == markerType {
			marker = options
			continue
		}
		fields = append(fields, b.field(f, i, name, options))
	}
	switch marker {
	case "array":
		return structArray(fields)
	case "":
	case "oneof":
	default:
		panic(fmt.Sprintf("calldata: internal error: unknown mark %q on %v", marker, t))
	}
	// CALLDATA-2: sorted once, here, so that encoding needs no sort.
	slices.SortFunc(fields, func(x, y field) int { return strings.Compare(x.name, y.name) })
	if marker == "oneof" {
		return oneOf(fields)
	}
	return structMap(fields)
}

func (b builder) field(f reflect.StructField, index int, name, options string) field {
	var w Writer
	if err := w.Key(name); err != nil {
		panic(err)
	}
	out := field{name: name, index: index, key: w.buf, isSlice: f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map}
	nullable := false
	for option := range strings.SplitSeq(options, ",") {
		value, hasValue := strings.CutPrefix(option, "default=")
		switch {
		case option == "null":
			nullable, out.isSlice = true, false
		case option == "default" || hasValue:
			out.optional, out.fallback = true, fallback(f.Type, value, hasValue)
		case option != "":
			panic(fmt.Sprintf("calldata: internal error: unknown option %q of field %s", option, f.Name))
		}
	}
	out.codec = b.codec(f.Type, nullable)
	return out
}

// fallback reads the default of a field from its tag.
func fallback(t reflect.Type, value string, hasValue bool) reflect.Value {
	v := reflect.New(t)
	if !hasValue {
		return v.Elem()
	}
	if in, ok := v.Interface().(encoding.TextUnmarshaler); ok {
		if err := in.UnmarshalText([]byte(value)); err != nil {
			panic(fmt.Sprintf("calldata: internal error: default %q: %v", value, err))
		}
		return v.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		v.Elem().SetString(value)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		n, err := parseDecimal(value)
		if err != nil || !n.IsUint64() || v.Elem().OverflowUint(n.Uint64()) {
			panic(fmt.Sprintf("calldata: internal error: default %q is no %v", value, t))
		}
		v.Elem().SetUint(n.Uint64())
	default:
		panic(fmt.Sprintf("calldata: internal error: no default for %v", t))
	}
	return v.Elem()
}

// holdsDefault reports whether the field may be left out.
func (f *field) holdsDefault(v reflect.Value) bool {
	if !f.optional {
		return false
	}
	if f.isSlice {
		return v.Len() == 0
	}
	if f.fallback.IsZero() {
		return v.IsZero()
	}
	return v.Comparable() && v.Equal(f.fallback)
}
