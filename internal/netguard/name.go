package netguard

import "strings"

// DNS limits, RFC 1035 §2.3.4, in bytes.
const (
	MaxName  = 253
	MaxLabel = 63
)

// Name checks a host name and makes it lower case, without a trailing dot. It
// must be made of letters, digits, hyphens and underscores, and its last label
// must not be a number: "2130706433", "0x7f.1" and "127.1" are addresses to some
// programs and names to others.
func Name(s string) (string, bool) {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > MaxName {
		return "", false
	}
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if !validLabel(label) {
			return "", false
		}
	}
	if isNumber(labels[len(labels)-1]) {
		return "", false
	}
	return strings.ToLower(s), true
}

func validLabel(label string) bool {
	if label == "" || len(label) > MaxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		c := label[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return false
		}
	}
	return true
}

// isNumber reports whether inet_aton or a browser would take the label for a
// number: decimal, octal or hexadecimal.
func isNumber(label string) bool {
	digits := "0123456789"
	if len(label) >= 2 && (label[:2] == "0x" || label[:2] == "0X") {
		label, digits = label[2:], "0123456789abcdefABCDEF"
	}
	return strings.Trim(label, digits) == ""
}
