package calldata

import (
	"reflect"
	"slices"
	"strings"
)

func mapCodec(t reflect.Type, elem *codec) codec {
	return codec{
		encode: func(w *Writer, v reflect.Value) error {
			if err := w.Map(v.Len()); err != nil {
				return err
			}
			keys := v.MapKeys()
			// CALLDATA-2: strings compare as bytes, which is the order that is wanted.
			slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
			for _, key := range keys {
				if err := w.Key(key.String()); err != nil {
					return err
				}
				if err := elem.encode(w, v.MapIndex(key)); err != nil {
					return inKey(err, key.String())
				}
			}
			w.Leave()
			return nil
		},
		decode: func(r *Reader, v reflect.Value) error {
			v.Set(reflect.MakeMap(t))
			value := reflect.New(t.Elem()).Elem()
			return r.Map(func(key string) error {
				if err := r.take(r.pos, 1, entryBytes(t)); err != nil {
					return err
				}
				value.SetZero()
				if err := elem.decode(r, value); err != nil {
					return err
				}
				v.SetMapIndex(reflect.ValueOf(key).Convert(t.Key()), value)
				return nil
			})
		},
	}
}
