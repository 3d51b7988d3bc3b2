package netproxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/internal/netguard"
)

// Injection is a header that the proxy sets in every request to a host, in place
// of what the client sent. It is for that host only, not for those below it.
// Over TLS, it needs the program inside to trust [Proxy.CA].
type Injection struct {
	Host   string
	Header string
	Value  string
}

// String shows all but the value.
func (in Injection) String() string { return in.Header + " for " + in.Host }

// GoString does too.
func (in Injection) GoString() string { return in.String() }

// LogValue does too.
func (in Injection) LogValue() slog.Value { return slog.StringValue(in.String()) }

// MarshalJSON does too.
func (in Injection) MarshalJSON() ([]byte, error) { return []byte(`"[injected]"`), nil }

// ownHeaders are those that say how a message travels and where to: to set them
// would make another message of it.
var ownHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// check says what is wrong with an injection. It never shows the value.
func (in Injection) check() error {
	name, ok := netguard.Name(in.Host)
	header := http.CanonicalHeaderKey(in.Header)
	switch {
	case !ok || name != in.Host:
		return fmt.Errorf("network injection: %q is not a host name in lower case", shorten(in.Host))
	case !validToken(in.Header):
		return fmt.Errorf("network injection for %s: %q is not the name of a header", in.Host, shorten(in.Header))
	case slices.Contains(ownHeaders, header):
		return fmt.Errorf("network injection for %s: %s cannot be set", in.Host, header)
	case strings.ContainsFunc(in.Value, func(c rune) bool { return c != '\t' && (c < ' ' || c == 0x7f) }):
		return fmt.Errorf("network injection for %s: the value of %s has a control character", in.Host, header)
	}
	return nil
}
