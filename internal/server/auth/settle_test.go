package auth_test

import (
	"context"
	"net/http/httptest"
	"reflect"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/server/auth"
	"github.com/toolyard/toolyard/tool"
)

// Whoever differs from the owner in anything is found behind Settle as that.
func TestSettleOwner(t *testing.T) {
	plain := httptest.NewRequest("POST", "/mcp", nil)
	if got := auth.From(auth.Settle(plain, auth.Owner()).Context()); !got.Admin || got.ID != "" {
		t.Errorf("the owner is found as %+v", got)
	}
	key := plain.WithContext(auth.With(plain.Context(), auth.Caller{ID: "key"}))
	if got := auth.From(auth.Settle(key, auth.Owner()).Context()); !got.Admin || got.ID != "" {
		t.Errorf("the owner is found as %+v where a key was before", got)
	}
	for i := range reflect.TypeFor[auth.Caller]().NumField() {
		c := auth.Owner()
		v, name := reflect.ValueOf(&c).Elem().Field(i), reflect.TypeFor[auth.Caller]().Field(i).Name
		switch v.Interface().(type) {
		case string:
			v.SetString("x")
		case bool:
			v.SetBool(!v.Bool())
		case int:
			v.SetInt(1)
		case func(*tool.Spec) bool:
			c.Allowed = func(*tool.Spec) bool { return false }
		case func(context.Context) (time.Duration, error):
			c.Again = func(context.Context) (time.Duration, error) { return 0, nil }
		default:
			t.Fatalf("%s is of an unknown type", name)
		}
		got := auth.From(auth.Settle(plain, c).Context())
		if reflect.ValueOf(got).Field(i).IsZero() != v.IsZero() {
			t.Errorf("%s is lost: %+v", name, got)
		}
	}
}
