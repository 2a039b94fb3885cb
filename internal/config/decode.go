// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
)

// decoder sets the fields of a Config from a parsed file and notes everything
// that doesn't fit. The TOML library would stop at the first.
type decoder struct {
	lines    map[string]int
	mistakes []Mistake
}

func (d *decoder) add(path, format string, args ...any) {
	d.mistakes = append(d.mistakes, Mistake{Line: lineOf(d.lines, path), Key: showKey(path), Problem: fmt.Sprintf(format, args...)})
}

// showKey writes "host_path[0].path" as "[[host_path]] path".
func showKey(path string) string {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return path
	}
	table, key := path[:i], path[i+1:]
	if name, _, ok := strings.Cut(table, "["); ok {
		return "[[" + name + "]] " + key
	}
	return "[" + table + "] " + key
}

// table sets the fields of a struct by their toml names, which are exact.
func (d *decoder) table(path string, from map[string]any, to reflect.Value) {
	fields := fieldsOf(to)
	for _, key := range slices.Sorted(maps.Keys(from)) {
		field, known := fields[key]
		if !known {
			d.add(join(path, key), "unknown key%s", hint(key, slices.Sorted(maps.Keys(fields))))
			continue
		}
		d.value(join(path, key), from[key], field)
	}
}

// fieldsOf gives a struct's fields by their toml names, those of embedded
// structs included.
func fieldsOf(v reflect.Value) map[string]reflect.Value {
	fields := map[string]reflect.Value{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			maps.Copy(fields, fieldsOf(v.Field(i)))
			continue
		}
		if name := field.Tag.Get("toml"); name != "-" {
			fields[name] = v.Field(i)
		}
	}
	return fields
}

func (d *decoder) value(path string, from any, to reflect.Value) {
	if text, ok := to.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(path, from, text)
		return
	}
	switch to.Kind() {
	case reflect.Struct:
		if table, ok := from.(map[string]any); ok {
			d.table(path, table, to)
			return
		}
		d.add(path, "is a table; write [%s]", path)
	case reflect.Slice:
		d.list(path, from, to)
	case reflect.Map:
		d.texts(path, from, to)
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.value(path, from, to.Elem())
	default:
		d.scalar(path, from, to)
	}
}

// text sets a value with a unit, which may also be a bare number.
func (d *decoder) text(path string, from any, to encoding.TextUnmarshaler) {
	switch from.(type) {
	case string, int64, float64:
		if err := to.UnmarshalText([]byte(fmt.Sprint(from))); err != nil {
			d.add(path, "%s %v", quote(from), err)
		}
	default:
		d.add(path, "%s is no text", quote(from))
	}
}

func (d *decoder) list(path string, from any, to reflect.Value) {
	var items []any
	switch list := from.(type) {
	case []any:
		items = list
	case []map[string]any:
		for _, table := range list {
			items = append(items, table)
		}
	default:
		if to.Type().Elem().Kind() == reflect.Struct {
			d.add(path, "is a list of tables; write [[%s]]", path)
			return
		}
		d.add(path, "%s is no list; write [...] around it", quote(from))
		return
	}
	to.Set(reflect.MakeSlice(to.Type(), len(items), len(items)))
	for i, item := range items {
		d.value(fmt.Sprintf("%s[%d]", path, i), item, to.Index(i))
	}
}

// texts sets a table of texts, which only runsc_config is.
func (d *decoder) texts(path string, from any, to reflect.Value) {
	table, ok := from.(map[string]any)
	if !ok {
		d.add(path, "is a table; write [%s]", path)
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for _, key := range slices.Sorted(maps.Keys(table)) {
		text, ok := table[key].(string)
		if !ok {
			d.add(join(path, key), `%s is no text; write it in quotes, runsc's flags are texts here`, quote(table[key]))
			continue
		}
		to.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(text))
	}
}

func (d *decoder) scalar(path string, from any, to reflect.Value) {
	switch v := from.(type) {
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return
		}
	case bool:
		if to.Kind() == reflect.Bool {
			to.SetBool(v)
			return
		}
	case int64:
		switch {
		case to.CanInt() && !to.OverflowInt(v):
			to.SetInt(v)
			return
		case to.CanUint() && v >= 0 && v <= math.MaxUint32:
			to.SetUint(uint64(v))
			return
		}
	}
	d.add(path, "%s is no %s", quote(from), kindName(to.Kind()))
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text; write it in quotes"
	case reflect.Bool:
		return "true or false"
	case reflect.Uint32:
		return "number from 0 to 4294967295"
	default:
		return "whole number"
	}
}

// hint names the known key that a misspelt one is nearest to.
func hint(key string, known []string) string {
	best, most := "", 0.6 // shares two in three letter pairs, or it's no hint
	for _, k := range known {
		if s := likeness(key, k); s > most {
			best, most = k, s
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s?", best)
}

// likeness is Dice's coefficient of two words: the share of neighbouring
// letters that they have in common, from 0 to 1.
func likeness(a, b string) float64 {
	a, b = "^"+a+"$", "^"+b+"$"
	pairs := map[string]int{}
	for i := range len(a) - 1 {
		pairs[a[i:i+2]]++
	}
	common := 0
	for i := range len(b) - 1 {
		if pairs[b[i:i+2]] > 0 {
			pairs[b[i:i+2]]--
			common++
		}
	}
	return 2 * float64(common) / float64(len(a)+len(b)-2)
}
