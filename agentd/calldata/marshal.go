package calldata

import (
	"math/big"
	"reflect"
	"sync"
)

// Options change how [Options.Unmarshal] decodes. The zero value is what
// [Unmarshal] does.
type Options struct {
	// IgnoreUnknown passes over keys that a struct does not have; their values
	// are still checked. It is for replies, which later managers may widen.
	IgnoreUnknown bool
	// Alias makes decoded bytes and Raw values share the input's memory, which
	// the caller must then leave alone.
	Alias bool
}

// Marshal encodes v with every field. It returns an [*Error] when v cannot be
// encoded: text that is not UTF-8, an unknown variant, too deep, too long.
func Marshal(v any) ([]byte, error) {
	scratch := scratches.Get().(*[]byte)
	out, err := appendTo(Writer{buf: (*scratch)[:0]}, v)
	if err == nil && cap(out) > maxScratch && len(out) >= cap(out)/4*3 {
		return out, nil // a second copy of a long value would cost more than its end
	}
	exact := append(make([]byte, 0, len(out)), out...)
	if cap(out) <= maxScratch {
		*scratch = out
		scratches.Put(scratch)
	}
	if err != nil {
		return nil, err
	}
	return exact, nil
}

// scratches are buffers that values are encoded in before their length is
// known. A large one is not kept.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

const maxScratch = 1 << 20

// Append is Marshal to the end of dst.
func Append(dst []byte, v any) ([]byte, error) { return appendTo(Writer{buf: dst}, v) }

// AppendSparse is Append without the fields that hold their default, at any
// depth. It is for requests: an older manager refuses fields that it does not
// know, so none is sent without need.
func AppendSparse(dst []byte, v any) ([]byte, error) {
	return appendTo(Writer{buf: dst, sparse: true}, v)
}

func appendTo(w Writer, v any) ([]byte, error) {
	before := w.buf
	if err := encodeValue(&w, v); err != nil {
		return before, err
	}
	return w.buf, nil
}

// encodeValue encodes any Go value.
func encodeValue(w *Writer, v any) error {
	switch v := v.(type) {
	case nil:
		w.Null()
		return nil
	case *big.Int:
		w.Int(IntOf(v))
		return nil
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer && !rv.IsNil() {
		rv = rv.Elem()
	}
	return codecOf(rv.Type()).encode(w, rv)
}

func encodeAny(w *Writer, v reflect.Value) error {
	if v.IsNil() {
		w.Null()
		return nil
	}
	return encodeValue(w, v.Interface())
}

// Unmarshal decodes data, which must hold exactly one value, into what v points
// to. It returns an [*Error]; then v may be set in part. Nothing of data is
// kept.
func Unmarshal(data []byte, v any) error { return Options{}.Unmarshal(data, v) }

// Unmarshal is [Unmarshal] with options.
func (o Options) Unmarshal(data []byte, v any) error {
	rv := reflect.ValueOf(v)
	if rv.Kind() != reflect.Pointer || rv.IsNil() {
		panic("calldata: internal error: Unmarshal needs a pointer")
	}
	slack := uint64(Slack)
	if _, any := v.(*any); any {
		slack = AnySlack
	}
	r := Reader{data: data, opts: o, left: allowance(data, slack)}
	if err := codecOf(rv.Type().Elem()).decode(&r, rv.Elem()); err != nil {
		return err
	}
	return r.End()
}

// Decode decodes any value: nil, bool, [Address], [Int], []byte, string, []any
// or map[string]any.
func Decode(data []byte) (any, error) {
	var v any
	err := Unmarshal(data, &v)
	return v, err
}

func decodeAny(r *Reader, v reflect.Value) error {
	value, err := r.any()
	if err != nil {
		return err
	}
	if value == nil {
		v.SetZero()
	} else {
		v.Set(reflect.ValueOf(value))
	}
	return nil
}

// any reads the next value, whatever it is.
func (r *Reader) any() (any, error) {
	at := r.pos
	k, err := r.Peek()
	if err == nil && k != KindNull {
		err = r.take(at, 1, boxBytes)
	}
	if err != nil {
		return nil, err
	}
	switch k {
	case KindNull:
		r.Null()
		return nil, nil
	case KindBool:
		return r.Bool()
	case KindAddress:
		return r.Address()
	case KindInt:
		return r.Int()
	case KindBytes:
		b, err := r.Bytes()
		return r.keep(b), err
	case KindString:
		return r.String()
	case KindArray:
		return r.list()
	}
	entries := map[string]any{}
	err = r.Map(func(key string) error {
		if err := r.take(r.pos, 1, anyEntryBytes); err != nil {
			return err
		}
		v, err := r.any()
		entries[key] = v
		return err
	})
	return entries, err
}

// What a value takes in an interface, and an entry in a map of interfaces.
const (
	boxBytes      = 24
	anyBytes      = 16
	anyEntryBytes = 2*(anyBytes+anyBytes) + wordBytes
)

// list reads an array of any values.
func (r *Reader) list() (any, error) {
	at := r.pos
	n, err := r.enter(KindArray, 1)
	if err == nil {
		err = r.take(at, n, anyBytes)
	}
	if err != nil {
		return nil, err
	}
	list := make([]any, 0, min(n, firstElements))
	for i := range n {
		if i == cap(list) {
			list = append(make([]any, 0, min(n, growth*i)), list...)
		}
		v, err := r.any()
		if err != nil {
			return nil, inElement(err, i)
		}
		list = append(list, v)
	}
	r.leave()
	return list, nil
}

// Value decodes the next value into what v points to.
func (r *Reader) Value(v any) error {
	return codecOf(reflect.TypeOf(v).Elem()).decode(r, reflect.ValueOf(v).Elem())
}

// ValueIgnoringUnknown is Value with [Options.IgnoreUnknown].
func (r *Reader) ValueIgnoringUnknown(v any) error {
	before := r.opts
	r.opts.IgnoreUnknown = true
	err := r.Value(v)
	r.opts = before
	return err
}

// Value encodes v as the next value.
func (w *Writer) Value(v any) error { return encodeValue(w, v) }
