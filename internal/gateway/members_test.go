package gateway

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Of two members with one name the last counts, in the place of the first, however
// many there are.
func TestMembersOf(t *testing.T) {
	for _, n := range []int{1, few - 1, few, few + 1, 3 * few} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			var raw []byte
			var want []member
			for i := range n {
				raw = fmt.Appendf(raw, `"k%d":0,`, i)
				want = append(want, member{fmt.Sprint("k", i), json.RawMessage(fmt.Sprint(i))})
			}
			for i := range n {
				raw = fmt.Appendf(raw, `"k%d":%d,`, i, i)
			}
			got, err := membersOf(append(append([]byte{'{'}, raw[:len(raw)-1]...), '}'))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got, cmp.AllowUnexported(member{})); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	for _, s := range []string{"", "echo", "a b/c", `"`, `\`, "<a&b>", "é", "\n", "\x7f", "\xff", "\u2028"} {
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := quote(s); string(got) != string(want) {
			t.Errorf("%q is quoted as %s, want %s", s, got, want)
		}
	}
}
