package model

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// ActionString renders an action with its arguments: "ExecStart(id=1)". An
// action beyond Actions is rendered by its number.
func (m *Model[S]) ActionString(a Action) string {
	if int(a.ID) >= len(m.Actions) {
		return "Action" + strconv.Itoa(int(a.ID))
	}
	info := m.Actions[a.ID]
	if len(info.Params) == 0 {
		return info.Name
	}
	var b strings.Builder
	b.WriteString(info.Name)
	b.WriteByte('(')
	for i, p := range info.Params {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(p)
		b.WriteByte('=')
		v := int(a.Arg[i])
		if names := info.Values[p]; v < len(names) {
			b.WriteString(names[v])
		} else {
			b.WriteString(strconv.Itoa(v))
		}
	}
	b.WriteByte(')')
	return b.String()
}

// fieldsOf renders a state: by the model's Fields, else by reflection.
func fieldsOf[S comparable](m *Model[S], s S) []Field {
	if m.Fields != nil {
		return m.Fields(s)
	}
	v := reflect.ValueOf(s)
	if v.Kind() != reflect.Struct {
		return []Field{{Name: "state", Value: plain(v)}}
	}
	out := make([]Field, 0, v.NumField())
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "_" {
			out = append(out, Field{Name: name, Value: plain(v.Field(i))})
		}
	}
	return out
}

// plain renders a value of a pointer-free type without calling its methods
// (unexported fields forbid that): numbers, true, [1 2], {A:1 B:2}.
func plain(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return strconv.FormatUint(v.Uint(), 10)
	case reflect.Array:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = plain(v.Index(i))
		}
		return "[" + strings.Join(parts, " ") + "]"
	case reflect.Struct:
		parts := make([]string, v.NumField())
		for i := range parts {
			parts[i] = v.Type().Field(i).Name + ":" + plain(v.Field(i))
		}
		return "{" + strings.Join(parts, " ") + "}"
	}
	return fmt.Sprint(v)
}

// newPath renders a behaviour. actions[i] leads to states[i+1].
func newPath[S comparable](m *Model[S], states []S, actions []Action, loop int) *Path {
	p := &Path{Loop: loop, Steps: make([]PathStep, len(states))}
	var before []Field
	for i, s := range states {
		f := fieldsOf(m, s)
		step := PathStep{State: f, Changed: changed(before, f)}
		if i > 0 {
			step.Action = m.ActionString(actions[i-1])
		} else {
			step.Changed = f
		}
		p.Steps[i] = step
		before = f
	}
	return p
}

// changed returns the fields of b that are not in a with the same value.
func changed(a, b []Field) []Field {
	out := []Field{}
	for i, f := range b {
		if i < len(a) && a[i] == f {
			continue
		}
		if !(i < len(a) && a[i].Name == f.Name) && contains(a, f) {
			continue
		}
		out = append(out, f)
	}
	return out
}

func contains(fs []Field, f Field) bool {
	for _, x := range fs {
		if x == f {
			return true
		}
	}
	return false
}
