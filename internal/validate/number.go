package validate

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// decimal is a number as digits · 10^exp, without trailing or leading zeros;
// zero has no digits.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// parseDecimal reads a valid JSON number.
func parseDecimal(text string) decimal {
	var d decimal
	text, d.negative = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		d.exp, _ = strconv.Atoi(text[i+1:]) // the parser bounds it
		text = text[:i]
	}
	if whole, fraction, ok := strings.Cut(text, "."); ok {
		d.exp -= len(fraction)
		text = whole + fraction
	}
	text = strings.TrimLeft(text, "0")
	d.digits = strings.TrimRight(text, "0")
	d.exp += len(text) - len(d.digits)
	if d.digits == "" {
		return decimal{}
	}
	return d
}

// isInteger reports whether the number is whole: 3, 3.0 and 30e-1 are.
func isInteger(text string) bool {
	if !strings.ContainsAny(text, ".eE") {
		return true
	}
	return parseDecimal(text).exp >= 0
}

// small gives the value of a short plain integer, the usual case.
func small(text string) (int64, bool) {
	if len(text) > 15 {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

// compare compares a JSON number with a bound: -1, 0 or 1.
func compare(text string, bound float64) int {
	if n, ok := small(text); ok {
		switch f := float64(n); {
		case f < bound:
			return -1
		case f > bound:
			return 1
		}
		return 0
	}
	d := parseDecimal(text)
	sign := 1
	if d.negative {
		sign = -1
	}
	switch magnitude := len(d.digits) + d.exp; {
	case d.digits == "":
		return cmpFloat(0, bound)
	case magnitude > 400:
		return sign
	case magnitude < -400: // nearer to zero than any float64
		if bound == 0 {
			return sign
		}
		return cmpFloat(0, bound)
	}
	if math.IsInf(bound, 0) || math.IsNaN(bound) {
		return cmpFloat(0, bound)
	}
	return d.rat().Cmp(written(bound).rat())
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// rat is the exact value; the exponent must be within bounds.
func (d decimal) rat() *big.Rat {
	digits := d.digits
	if digits == "" {
		digits = "0"
	}
	n, _ := new(big.Int).SetString(digits, 10)
	if d.negative {
		n.Neg(n)
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(d.exp, -d.exp))), nil)
	if d.exp < 0 {
		return new(big.Rat).SetFrac(n, power)
	}
	return new(big.Rat).SetInt(n.Mul(n, power))
}

// written is the decimal that a person wrote (0.01), not its binary neighbour.
func written(f float64) decimal { return parseDecimal(strconv.FormatFloat(f, 'e', -1, 64)) }

// isMultiple reports whether text is a whole multiple of the step.
func isMultiple(text string, step float64) bool {
	if step == 0 || math.IsInf(step, 0) || math.IsNaN(step) {
		return true
	}
	if n, ok := small(text); ok {
		if s := int64(step); float64(s) == step && s != 0 {
			return n%s == 0
		}
	}
	d := parseDecimal(text)
	if d.digits == "" {
		return true
	}
	const far = 5000
	if d.exp > far || d.exp < -far {
		return false
	}
	return new(big.Rat).Quo(d.rat(), written(step).rat()).IsInt()
}

// appendNumber writes the number in one form for all ways to write it.
func appendNumber(b []byte, text string) []byte {
	d := parseDecimal(text)
	if d.digits == "" {
		return append(b, '0')
	}
	if d.negative {
		b = append(b, '-')
	}
	const plain = 21 // longer ones get an exponent
	point := len(d.digits) + d.exp
	switch {
	case d.exp >= 0 && point <= max(plain, len(d.digits)):
		b = append(b, d.digits...)
		return append(b, strings.Repeat("0", d.exp)...)
	case d.exp < 0 && point > 0:
		b = append(b, d.digits[:point]...)
		b = append(b, '.')
		return append(b, d.digits[point:]...)
	case d.exp < 0 && point > -6:
		b = append(b, "0."...)
		b = append(b, strings.Repeat("0", -point)...)
		return append(b, d.digits...)
	}
	b = append(b, d.digits...)
	b = append(b, 'e')
	return strconv.AppendInt(b, int64(d.exp), 10)
}
