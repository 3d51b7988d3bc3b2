package host_test

import (
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/host"
)

// TestCause: what fetch says only in the cause of its error is said, and found
// among the tool's business errors.
func TestCause(t *testing.T) {
	t.Parallel()
	b := newBench(t, box(t), "cause", "cause.tool.js", map[string]string{
		"package.json": `{"name":"cause","type":"module"}`,
		"cause.tool.js": `const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:9'), { code: 'ECONNREFUSED' })
const causes = {
  error: refused,
  several: Object.assign(new AggregateError([refused], ''), { code: 'ECONNREFUSED' }),
  hostile: { get code () { throw new Error('no') } },
  none: undefined
}
export default {
  getBusinessErrors: () => [{ code: 'UNREACHABLE', description: 'not there', match: /ECONNREFUSED/, solution: 'Start it.', retryable: true }],
  execute ({ cause }) { throw new TypeError('fetch failed', { cause: causes[cause] }) }
}`}, nil)
	d := b.describe()
	for _, c := range []struct{ cause, want, hint string }{
		{"error", "TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:9", "Start it."},
		{"several", "TypeError: fetch failed: connect ECONNREFUSED 127.0.0.1:9", "Start it."},
		{"hostile", "TypeError: fetch failed", ""},
		{"none", "TypeError: fetch failed", ""},
	} {
		_, err := b.call(`{"cause":"` + c.cause + `"}`)
		e := host.Failure(err, d)
		if e == nil || e.Message != c.want || !strings.Contains(e.Hint, c.hint) || c.hint == "" && e.Hint != "" {
			t.Errorf("%s: got %v, hint %q", c.cause, err, e.Hint)
		}
	}
}
