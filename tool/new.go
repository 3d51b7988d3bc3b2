package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
)

// New makes a tool from a function. The input and output schemas are derived
// from In and Out (see [SchemaFor] for the tags) unless spec brings its own.
//
// call returns the content for the model, the structured output, or an error.
// A nil Result becomes one text block with the output as JSON. An Out of type
// struct{} means that there is no structured output.
//
// New panics if a schema cannot be derived: that is a mistake in the program.
// To add an optional ability, embed the returned Tool in a struct of your own
// and give that the method.
func New[In, Out any](spec Spec, call func(ctx context.Context, req *Request, in In) (*Result, Out, error)) Tool {
	if spec.Name == "" {
		panic("tool.New: a Spec needs a Name")
	}
	if spec.Input == nil {
		schema, aliases, err := SchemaFor[In]()
		if err != nil {
			panic(fmt.Sprintf("tool.New: input of %s: %v", spec.Name, err))
		}
		spec.Input, spec.ArgumentAliases = schema, aliases
	}
	_, noOutput := any(*new(Out)).(struct{})
	if spec.Output == nil && !noOutput {
		schema, _, err := SchemaFor[Out]()
		if err != nil {
			panic(fmt.Sprintf("tool.New: output of %s: %v", spec.Name, err))
		}
		spec.Output = schema
	}
	return &function[In, Out]{spec: &spec, call: call, noOutput: noOutput}
}

// function is a tool made of a Go function.
type function[In, Out any] struct {
	spec     *Spec
	call     func(context.Context, *Request, In) (*Result, Out, error)
	noOutput bool
}

func (f *function[In, Out]) Spec() *Spec { return f.spec }

func (f *function[In, Out]) Call(ctx context.Context, req *Request) (*Result, error) {
	in, err := Arguments[In](req)
	if err != nil {
		return nil, err
	}
	result, out, err := f.call(ctx, req, in)
	if err != nil {
		return result, err
	}
	if result == nil {
		result = &Result{}
	}
	if !f.noOutput && result.Structured == nil {
		fillNil(reflect.ValueOf(&out).Elem())
		if result.Structured, err = encode(out); err != nil {
			return nil, fmt.Errorf("output of %s: %w", f.spec.Name, err)
		}
	}
	if len(result.Content) == 0 && result.Structured != nil {
		result.Content = []Content{{Kind: KindText, Text: string(result.Structured)}}
	}
	return result, nil
}

// Arguments decodes the arguments of req. The executor has validated them; a
// caller without it gets a VALIDATION_ERROR for what does not decode. They are
// decoded once for a call; its slices and maps may be read by the tool's other
// methods before it is called.
func Arguments[In any](req *Request) (In, error) {
	if len(req.Arguments) == 0 {
		return *new(In), nil
	}
	return Remember(req, decoded[In]{&req.Arguments[0], len(req.Arguments)}, func() (in In, err error) {
		if err := json.Unmarshal(req.Arguments, &in); err != nil {
			return in, Errorf(ValidationError, "the arguments do not fit: %v", err)
		}
		return in, nil
	})
}

// decoded is the key of decoded arguments: a tool may have put others into its
// request.
type decoded[In any] struct {
	at  *byte
	len int
}

// fillNil makes nil slices and maps empty, so that they are [] and {} in JSON,
// as the schema says, and not null. It changes only what v holds itself: items
// are copied first, and nothing behind a pointer is touched, for the tool may
// share it between calls.
func fillNil(v reflect.Value) {
	switch t := v.Type(); v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() {
				fillNil(f)
			}
		}
	case reflect.Slice:
		switch {
		case special(t) != nil:
		case v.IsNil():
			v.Set(reflect.MakeSlice(t, 0, 0))
		case v.Len() > 0 && holdsNil(t.Elem()):
			items := reflect.MakeSlice(t, v.Len(), v.Len())
			reflect.Copy(items, v)
			v.Set(items)
			for i := range v.Len() {
				fillNil(v.Index(i))
			}
		}
	case reflect.Map:
		if v.IsNil() && special(t) == nil {
			v.Set(reflect.MakeMap(t))
		}
	}
}

// holdsNil reports whether a value of the type can hold a nil slice or map.
func holdsNil(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Slice, reflect.Map:
		return true
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && holdsNil(f.Type) {
				return true
			}
		}
	}
	return false
}

// encode is json.Marshal without the escaping of <, > and &, which would cost
// the model tokens.
func encode(v any) (json.RawMessage, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}
