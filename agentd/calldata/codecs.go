package calldata

import (
	"encoding"
	"math"
	"reflect"
	"slices"
)

// builtin gives the codecs of the package's own types.
func builtin(t reflect.Type) (codec, bool) {
	switch t {
	case reflect.TypeFor[Int]():
		return direct(func(w *Writer, n *Int) error { w.Int(*n); return nil },
			func(r *Reader, n *Int) (err error) { *n, err = r.Int(); return err }), true
	case reflect.TypeFor[U256]():
		return direct(func(w *Writer, n *U256) error { w.U256(*n); return nil },
			func(r *Reader, n *U256) (err error) { *n, err = r.U256(); return err }), true
	case reflect.TypeFor[Address]():
		return direct(func(w *Writer, a *Address) error { w.Address(*a); return nil },
			func(r *Reader, a *Address) (err error) { *a, err = r.Address(); return err }), true
	case reflect.TypeFor[Raw]():
		return direct(func(w *Writer, raw *Raw) error { return w.Raw(*raw) }, readRaw), true
	}
	return codec{}, false
}

// direct is the codec of a type that is handled without reflection.
func direct[T any](encode func(*Writer, *T) error, decode func(*Reader, *T) error) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if v.CanAddr() {
				return encode(w, v.Addr().Interface().(*T))
			}
			copied := v.Interface().(T)
			return encode(w, &copied)
		},
		decode: func(r *Reader, v reflect.Value) error { return decode(r, v.Addr().Interface().(*T)) },
	}
}

func readRaw(r *Reader, raw *Raw) error {
	start := r.pos
	if err := r.Skip(); err != nil {
		return err
	}
	if r.data[start] == atomNull<<3|tagAtom {
		*raw = nil
		return nil
	}
	*raw = r.keep(r.data[start:r.pos:r.pos])
	return nil
}

// keep gives bytes of the input to the caller's value.
func (r *Reader) keep(b []byte) []byte {
	if r.opts.Alias {
		return b
	}
	return append(make([]byte, 0, len(b)), b...)
}

// orNull makes nil null and null nil.
func orNull(c codec) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if v.IsNil() {
				w.Null()
				return nil
			}
			return c.encode(w, v)
		},
		decode: func(r *Reader, v reflect.Value) error {
			if r.Null() {
				v.SetZero()
				return nil
			}
			return c.decode(r, v)
		},
	}
}

func (b builder) pointer(t reflect.Type) codec {
	elem := b.codec(t.Elem(), false)
	return orNull(codec{
		encode: func(w *Writer, v reflect.Value) error { return elem.encode(w, v.Elem()) },
		decode: func(r *Reader, v reflect.Value) error {
			if err := r.take(r.pos, 1, t.Elem().Size()); err != nil {
				return err
			}
			v.Set(reflect.New(t.Elem()))
			return elem.decode(r, v.Elem())
		},
	})
}

// checked adds the check of a [Checker].
func checked(c codec) codec {
	check := func(v reflect.Value) error {
		if !v.CanAddr() {
			copied := reflect.New(v.Type()).Elem()
			copied.Set(v)
			v = copied
		}
		return v.Addr().Interface().(Checker).CheckCalldata()
	}
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if err := check(v); err != nil {
				return asError(err, -1)
			}
			return c.encode(w, v)
		},
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			if err := c.decode(r, v); err != nil {
				return err
			}
			if err := check(v); err != nil {
				return asError(err, at)
			}
			return nil
		},
	}
}

// asError gives an error of a type's own code its place.
func asError(err error, at int) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // of one that is wrapped, the text around it counts
		return e
	}
	return &Error{Fault: BadText, Offset: at, Detail: err.Error()}
}

// custom is the codec of types that do it themselves.
func custom() codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			start, depth := len(w.buf), w.depth
			if err := v.Interface().(Marshaler).MarshalCalldata(w); err != nil {
				return asError(err, -1)
			}
			// CALLDATA-8: what foreign code wrote is held to the same rules.
			w.depth = depth
			return w.check(start)
		},
		decode: func(r *Reader, v reflect.Value) error {
			start, depth := r.pos, r.depth
			if err := r.Skip(); err != nil {
				return err
			}
			own := *r
			own.data, own.pos, own.depth = r.data[:r.pos:r.pos], start, depth
			if err := v.Addr().Interface().(Unmarshaler).UnmarshalCalldata(&own); err != nil {
				return asError(err, start)
			}
			r.left = own.left
			if own.pos != r.pos {
				return r.fault(start, Unexpected, "the type %v does not read its value whole", v.Type())
			}
			return nil
		},
	}
}

func text() codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
			if err != nil {
				return asError(err, -1)
			}
			return w.String(string(b))
		},
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			b, err := r.text()
			if err != nil {
				return err
			}
			if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText(b); err != nil {
				return r.fault(at, BadText, "%v", err)
			}
			return nil
		},
	}
}

func boolean() codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error { w.Bool(v.Bool()); return nil },
		decode: func(r *Reader, v reflect.Value) error {
			b, err := r.Bool()
			v.SetBool(b)
			return err
		},
	}
}

func signed(t reflect.Type) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error { w.Int64(v.Int()); return nil },
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			n, err := r.Int64()
			if err == nil && v.OverflowInt(n) {
				err = r.fault(at, OutOfRange, "want an integer of %d bits with sign", t.Bits())
			}
			v.SetInt(n)
			return err
		},
	}
}

func unsigned(t reflect.Type) codec {
	most := uint64(math.MaxUint64) >> (64 - t.Bits())
	return codec{
		encode: func(w *Writer, v reflect.Value) error { w.Uint(v.Uint()); return nil },
		decode: func(r *Reader, v reflect.Value) error {
			n, err := r.Uint(most)
			v.SetUint(n)
			return err
		},
	}
}

func stringCodec(t reflect.Type) codec {
	var variants []string
	if t.Implements(enumType) {
		variants = reflect.Zero(t).Interface().(interface{ Variants() []string }).Variants()
	}
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if variants != nil && !slices.Contains(variants, v.String()) {
				return refuse(BadVariant, "want one of %q", variants)
			}
			return w.String(v.String())
		},
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			b, err := r.text()
			if err != nil {
				return err
			}
			if variants == nil {
				v.SetString(string(b))
				return nil
			}
			for _, name := range variants {
				if name == string(b) {
					v.SetString(name)
					return nil
				}
			}
			return r.fault(at, BadVariant, "want one of %q", variants)
		},
	}
}

func byteSlice() codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error { return w.Bytes(v.Bytes()) },
		decode: func(r *Reader, v reflect.Value) error {
			b, err := r.Bytes()
			if err == nil {
				v.SetBytes(r.keep(b))
			}
			return err
		},
	}
}

func byteArray(t reflect.Type) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			w.head(tagBytes, uint64(t.Len()))
			for i := range t.Len() {
				w.buf = append(w.buf, byte(v.Index(i).Uint()))
			}
			return nil
		},
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			b, err := r.Bytes()
			if err == nil && len(b) != t.Len() {
				err = r.fault(at, OutOfRange, "want %d bytes, have %d", t.Len(), len(b))
			}
			if err == nil {
				reflect.Copy(v, reflect.ValueOf(b))
			}
			return err
		},
	}
}

// firstElements is how many elements a slice of unknown content begins with.
const firstElements = 16

func slice(t reflect.Type, elem *codec) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error { return encodeElements(w, v, elem) },
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			n, err := r.enter(KindArray, 1)
			if err == nil {
				err = r.take(at, n, t.Elem().Size())
			}
			if err != nil {
				return err
			}
			// CALLDATA-4: it grows with the elements that were read, because an
			// element in Go takes many times the octet that its count stands for.
			v.Set(reflect.MakeSlice(t, 0, min(n, firstElements)))
			for i := range n {
				if i == v.Cap() {
					v.Set(grown(v, n))
				}
				v.SetLen(i + 1)
				v.Index(i).SetZero()
				if err := elem.decode(r, v.Index(i)); err != nil {
					return inElement(err, i)
				}
			}
			r.leave()
			return nil
		},
	}
}

func encodeElements(w *Writer, v reflect.Value, elem *codec) error {
	if err := w.Array(v.Len()); err != nil {
		return err
	}
	for i := range v.Len() {
		if err := elem.encode(w, v.Index(i)); err != nil {
			return inElement(err, i)
		}
	}
	w.Leave()
	return nil
}

func array(t reflect.Type, elem *codec) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error { return encodeElements(w, v, elem) },
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			n, err := r.enter(KindArray, 1)
			if err == nil && n != t.Len() {
				err = r.fault(at, BadCount, "want %d elements, have %d", t.Len(), n)
			}
			if err != nil {
				return err
			}
			for i := range n {
				if err := elem.decode(r, v.Index(i)); err != nil {
					return inElement(err, i)
				}
			}
			r.leave()
			return nil
		},
	}
}
