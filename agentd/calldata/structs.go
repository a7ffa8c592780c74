package calldata

import (
	"reflect"
)

// structMap is a struct as a map of its fields, which are sorted.
func structMap(fields []field) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			n := len(fields)
			if w.sparse {
				for i := range fields {
					if fields[i].holdsDefault(v.Field(fields[i].index)) {
						n--
					}
				}
			}
			if err := w.Map(n); err != nil {
				return err
			}
			for i := range fields {
				f := &fields[i]
				fv := v.Field(f.index)
				// CALLDATA-19: an older manager may not know the field.
				if w.sparse && f.holdsDefault(fv) {
					continue
				}
				w.buf = append(w.buf, f.key...)
				if err := f.codec.encode(w, fv); err != nil {
					return inKey(err, f.name)
				}
			}
			w.Leave()
			return nil
		},
		decode: func(r *Reader, v reflect.Value) error { return decodeFields(r, v, fields) },
	}
}

// decodeFields walks the keys of the input and the fields side by side, since
// both ascend.
func decodeFields(r *Reader, v reflect.Value, fields []field) error {
	at := r.pos
	n, err := r.enter(KindMap, 2)
	if err != nil {
		return err
	}
	var prev []byte
	next := 0
	for i := range n {
		keyAt := r.pos
		key, err := r.key(prev, i == 0)
		if err != nil {
			return err
		}
		prev = key
		for next < len(fields) && fields[next].name < string(key) {
			if err := fields[next].absent(r, at, v); err != nil {
				return err
			}
			next++
		}
		if next == len(fields) || fields[next].name != string(key) {
			// CALLDATA-9: a key that nobody reads is a request that is not met in full.
			if !r.opts.IgnoreUnknown {
				return inKey(r.fault(keyAt, UnknownField, ""), string(key))
			}
			// CALLDATA-20: a newer manager may say more, but only in good encoding.
			if err := r.Skip(); err != nil {
				return inKey(err, string(key))
			}
			continue
		}
		f := &fields[next]
		next++
		if err := f.codec.decode(r, v.Field(f.index)); err != nil {
			return inKey(err, f.name)
		}
	}
	for ; next < len(fields); next++ {
		if err := fields[next].absent(r, at, v); err != nil {
			return err
		}
	}
	r.leave()
	return nil
}

// absent gives a field that the input does not have its default.
func (f *field) absent(r *Reader, at int, v reflect.Value) error {
	// CALLDATA-10: only a default stands in for a missing key; null does not.
	if !f.optional {
		return inKey(r.fault(at, MissingField, ""), f.name)
	}
	v.Field(f.index).Set(f.fallback)
	return nil
}

// structArray is a struct as an array of its fields in order.
func structArray(fields []field) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if err := w.Array(len(fields)); err != nil {
				return err
			}
			for i := range fields {
				if err := fields[i].codec.encode(w, v.Field(fields[i].index)); err != nil {
					return inElement(err, i)
				}
			}
			w.Leave()
			return nil
		},
		decode: func(r *Reader, v reflect.Value) error {
			at := r.pos
			n, err := r.enter(KindArray, 1)
			if err != nil {
				return err
			}
			if n != len(fields) {
				return r.fault(at, BadCount, "want %d elements, have %d", len(fields), n)
			}
			for i := range fields {
				if err := fields[i].codec.decode(r, v.Field(fields[i].index)); err != nil {
					return inElement(err, i)
				}
			}
			r.leave()
			return nil
		},
	}
}

// oneOf is a struct of pointers as a map whose one key says which is set.
func oneOf(fields []field) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			set := -1
			for i := range fields {
				if !v.Field(fields[i].index).IsNil() {
					if set >= 0 {
						return refuse(BadCount, "%s and %s are set, want one", fields[set].name, fields[i].name)
					}
					set = i
				}
			}
			if set < 0 {
				return refuse(BadCount, "no variant is set, want one")
			}
			if err := w.Map(1); err != nil {
				return err
			}
			w.buf = append(w.buf, fields[set].key...)
			if err := fields[set].codec.encode(w, v.Field(fields[set].index)); err != nil {
				return inKey(err, fields[set].name)
			}
			w.Leave()
			return nil
		},
		decode: func(r *Reader, v reflect.Value) error { return decodeOneOf(r, v, fields) },
	}
}

func decodeOneOf(r *Reader, v reflect.Value, fields []field) error {
	at := r.pos
	n, err := r.enter(KindMap, 2)
	if err != nil {
		return err
	}
	if n != 1 {
		return r.fault(at, BadCount, "want 1 key, have %d", n)
	}
	at = r.pos
	key, err := r.key(nil, true)
	if err != nil {
		return err
	}
	v.SetZero()
	for i := range fields {
		if fields[i].name != string(key) {
			continue
		}
		if r.Null() {
			return inKey(r.fault(r.pos-1, Unexpected, "have null"), fields[i].name)
		}
		if err := fields[i].codec.decode(r, v.Field(fields[i].index)); err != nil {
			return inKey(err, fields[i].name)
		}
		r.leave()
		return nil
	}
	return inKey(r.fault(at, BadVariant, ""), string(key))
}
