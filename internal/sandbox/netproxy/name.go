package netproxy

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/toolyard/toolyard/internal/netguard"
)

// asciiName is a host name as it travels: lower case, punycode, no trailing dot.
func asciiName(s string) (string, error) {
	if s == "" {
		return "", errors.New("the host is empty")
	}
	name := s
	if !isASCII(s) {
		name = norm.NFKC.String(strings.ToLower(norm.NFKC.String(s)))
		labels := strings.Split(strings.ReplaceAll(name, "。", "."), ".")
		for i, label := range labels {
			ascii, err := asciiLabel(label)
			if err != nil {
				return "", err
			}
			labels[i] = ascii
		}
		name = strings.Join(labels, ".")
	}
	name, ok := netguard.Name(name)
	if !ok {
		return "", fmt.Errorf("%q is not a host name", shorten(s))
	}
	return name, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// asciiLabel encodes one label that is normalised and in lower case. It takes
// letters, marks and digits: what a registry would sell.
func asciiLabel(label string) (string, error) {
	if isASCII(label) {
		return label, nil
	}
	for _, r := range label {
		if r != '-' && !unicode.In(r, unicode.L, unicode.M, unicode.Nd) {
			return "", fmt.Errorf("%q cannot be part of a host name", r)
		}
	}
	code, ok := punycode([]rune(label))
	if !ok {
		return "", fmt.Errorf("%q is too long for a host name", shorten(label))
	}
	return "xn--" + code, nil
}

// punycode is the encoder of RFC 3492 §6.3 for one label.
func punycode(label []rune) (string, bool) {
	const base, tmin, tmax, skew, damp, start, bias0 = 36, 1, 26, 38, 700, 128, 72
	var out []byte
	for _, r := range label {
		if r < start {
			out = append(out, byte(r))
		}
	}
	basic := len(out)
	if basic > 0 {
		out = append(out, '-')
	}
	delta, n, bias := 0, rune(start), bias0
	for done := basic; done < len(label); {
		next := rune(math.MaxInt32)
		for _, r := range label {
			if r >= n && r < next {
				next = r
			}
		}
		if int(next-n) > (math.MaxInt32-delta)/(done+1) {
			return "", false
		}
		delta += int(next-n) * (done + 1)
		n = next
		for _, r := range label {
			if r < n {
				delta++
			}
			if r != n {
				continue
			}
			q := delta
			for k := base; ; k += base {
				t := min(max(k-bias, tmin), tmax)
				if q < t {
					break
				}
				out = append(out, punyDigit(t+(q-t)%(base-t)))
				q = (q - t) / (base - t)
			}
			out = append(out, punyDigit(q))
			bias = adapt(delta, done+1, done == basic, base, tmin, tmax, skew, damp)
			delta = 0
			done++
			if len(out) > netguard.MaxLabel {
				return "", false
			}
		}
		delta++
		n++
	}
	return string(out), true
}

func adapt(delta, points int, first bool, base, tmin, tmax, skew, damp int) int {
	if first {
		delta /= damp
	} else {
		delta /= 2
	}
	delta += delta / points
	k := 0
	for delta > (base-tmin)*tmax/2 {
		delta /= base - tmin
		k += base
	}
	return k + (base-tmin+1)*delta/(delta+skew)
}

func punyDigit(d int) byte {
	if d < 26 {
		return byte('a' + d)
	}
	return byte('0' + d - 26)
}
