// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// checkObject checks that raw is one JSON object and that no object in it has
// a key twice: of two values our view would show one and another reader might
// take the other.
func checkObject(raw []byte) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	first, err := dec.Token()
	if err != nil {
		return fmt.Errorf("not JSON: %w", tokenError(err))
	}
	if first != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	open := []*object{newObject()}
	for len(open) > 0 {
		token, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", tokenError(err))
		}
		top := open[len(open)-1]
		switch token {
		case json.Delim('{'):
			top.value()
			open = append(open, newObject())
		case json.Delim('['):
			top.value()
			open = append(open, new(object))
		case json.Delim('}'), json.Delim(']'):
			open = open[:len(open)-1]
		default:
			if err := top.take(token); err != nil {
				return err
			}
		}
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// tokenError says what an early end of the input means.
func tokenError(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// object is where checkObject is inside an object; an array is one without
// keys.
type object struct {
	keys map[string]bool
	key  bool // a key comes next
}

func newObject() *object { return &object{keys: map[string]bool{}, key: true} }

// value says that a value was read, so that a key comes next.
func (o *object) value() { o.key = true }

// take reads a token that is a key or a plain value.
func (o *object) take(token json.Token) error {
	if o.keys == nil || !o.key {
		o.value()
		return nil
	}
	key, _ := token.(string)
	if o.keys[key] {
		return fmt.Errorf("duplicate key %q", key)
	}
	o.keys[key] = true
	o.key = false
	return nil
}

// splitObject returns the members in order, their values as they are written.
func splitObject(raw json.RawMessage) ([]member, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	var out []member
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := member{key: key.(string)}
		if err := dec.Decode(&m.value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

func splitArray(raw json.RawMessage) ([]json.RawMessage, error) {
	var out []json.RawMessage
	err := json.Unmarshal(raw, &out)
	return out, err
}

func index(members []member) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(members))
	for _, m := range members {
		out[m.key] = m.value
	}
	return out
}

func joinObject(members []member) (json.RawMessage, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

func joinArray(values []json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteByte('[')
	for i, v := range values {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(v)
	}
	out.WriteByte(']')
	return out.Bytes()
}
