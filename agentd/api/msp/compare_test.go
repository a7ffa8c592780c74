package msp

import (
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// ignoreMarkers leaves out the blank fields that only carry a tag.
var ignoreMarkers = cmp.FilterPath(func(p cmp.Path) bool {
	f, ok := p.Last().(cmp.StructField)
	return ok && f.Name() == "_"
}, cmp.Ignore())

// newOf is a fresh value of the type that v points to.
func newOf(v any) any { return reflect.New(reflect.TypeOf(v).Elem()).Interface() }
