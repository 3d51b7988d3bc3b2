package yamlin

import (
	"math"
	"strconv"
	"strings"
)

// encoder writes nodes as JSON. Aliases are written out, so it counts.
type encoder struct {
	p     *parser
	dst   []byte
	nodes int
}

// encode is the JSON of a node, by YAML 1.2's core schema: true and false are
// booleans (not yes, no, on, off), 0o17 and 0x1F are numbers, 017 is 17, numbers
// keep all their digits, dates are text.
func encode(src string, n *node) ([]byte, *syntaxError) {
	e := &encoder{p: &parser{src: src}}
	if n == nil {
		return []byte("null"), nil
	}
	if err := e.value(n, 0); err != nil {
		return nil, err
	}
	return e.dst, nil
}

func (e *encoder) value(n *node, depth int) *syntaxError {
	if e.nodes++; e.nodes > maxNodes || len(e.dst) > maxJSON || depth > 2*maxDepth {
		return e.p.failAt(limit, n.at, "written out, the text is too large")
	}
	switch n.kind {
	case mapping:
		e.dst = append(e.dst, '{')
		for i, key := range n.keys {
			if i > 0 {
				e.dst = append(e.dst, ',')
			}
			if key.kind == plain && key.text == "<<" {
				return e.p.failAt(other, key.at, "merging with << is not part of YAML 1.2; write the values out")
			}
			e.dst = append(appendString(e.dst, key.text), ':')
			if err := e.value(n.items[i], depth+1); err != nil {
				return err
			}
		}
		e.dst = append(e.dst, '}')
	case sequence:
		e.dst = append(e.dst, '[')
		for i, item := range n.items {
			if i > 0 {
				e.dst = append(e.dst, ',')
			}
			if err := e.value(item, depth+1); err != nil {
				return err
			}
		}
		e.dst = append(e.dst, ']')
	default:
		return e.scalar(n)
	}
	return nil
}

func (e *encoder) scalar(n *node) *syntaxError {
	if n.kind == quoted || n.tag == "!!str" || n.tag == "!" {
		e.dst = appendString(e.dst, n.text)
		return nil
	}
	json, kind := resolve(n.text)
	if kind == infinite {
		return e.p.failAt(other, n.at, "%s has no form in JSON; put it in quotes if text is meant", short(n.text))
	}
	if kind == isText {
		e.dst = appendString(e.dst, n.text)
		return nil
	}
	e.dst = append(e.dst, json...)
	return nil
}

// scalarKind is what a text without quotes stands for.
type scalarKind uint8

const (
	isText scalarKind = iota
	isNull
	isBool
	isInt
	isFloat
	infinite // .inf, .nan and numbers beyond a float
)

// resolve gives the JSON of a text without quotes that is no text.
func resolve(s string) (string, scalarKind) {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return "null", isNull
	case "true", "True", "TRUE":
		return "true", isBool
	case "false", "False", "FALSE":
		return "false", isBool
	}
	digits, sign := s, ""
	if digits[0] == '-' || digits[0] == '+' {
		if digits[0] == '-' {
			sign = "-"
		}
		digits = digits[1:]
	}
	switch digits {
	case ".inf", ".Inf", ".INF":
		return "", infinite
	case "":
		return "", isText
	}
	if s == ".nan" || s == ".NaN" || s == ".NAN" {
		return "", infinite
	}
	if base, ok := map[string]int{"0o": 8, "0x": 16}[s[:min(2, len(s))]]; ok {
		n, err := strconv.ParseUint(s[2:], base, 64)
		if err != nil || strings.ContainsAny(s[2:], "+-_") {
			return "", isText
		}
		return strconv.FormatUint(n, 10), isInt
	}
	return decimal(sign, digits)
}

// decimal gives the JSON of digits with a point and an exponent.
func decimal(sign, s string) (string, scalarKind) {
	span := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	whole, rest := s[:span(s)], s[span(s):]
	if rest == "" {
		return sign + trimZeros(whole), isInt
	}
	fraction := ""
	if rest[0] == '.' {
		fraction, rest = rest[1:1+span(rest[1:])], rest[1+span(rest[1:]):]
	}
	if whole == "" && fraction == "" {
		return "", isText
	}
	exponent := ""
	if rest != "" && (rest[0] == 'e' || rest[0] == 'E') {
		after := strings.TrimPrefix(rest[1:], "-")
		if after == rest[1:] {
			after = strings.TrimPrefix(rest[1:], "+")
		}
		if n := span(after); n > 0 && n == len(after) {
			exponent, rest = rest, ""
		}
	}
	if rest != "" {
		return "", isText
	}
	json := sign + trimZeros(whole)
	if fraction != "" {
		json += "." + fraction
	}
	json += exponent
	if f, err := strconv.ParseFloat(json, 64); err != nil || math.IsInf(f, 0) {
		return "", infinite
	}
	return json, isFloat
}

// trimZeros leaves one digit at least.
func trimZeros(digits string) string {
	if t := strings.TrimLeft(digits, "0"); t != "" {
		return t
	}
	return "0"
}

var tagKinds = map[string][]scalarKind{
	"!!null": {isNull}, "!!bool": {isBool}, "!!int": {isInt}, "!!float": {isFloat, isInt},
}

func knownTag(tag string) bool {
	return tag == "!" || tag == "!!str" || tag == "!!map" || tag == "!!seq" || tagKinds[tag] != nil
}

// tagFits reports whether a value is what its tag says.
func tagFits(tag string, n *node) bool {
	switch tag {
	case "!!map":
		return n.kind == mapping
	case "!!seq":
		return n.kind == sequence
	case "!!str", "!":
		return n.kind == plain || n.kind == quoted
	}
	if n.kind != plain {
		return false
	}
	_, kind := resolve(n.text)
	for _, fits := range tagKinds[tag] {
		if kind == fits {
			return true
		}
	}
	return false
}

// appendString appends s, which is valid UTF-8, as a JSON string.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	run := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[run:i]...)
		run = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[run:]...), '"')
}

// Text reports whether a text without quotes stands for itself, and not for a
// number, true, false or null.
func Text(s string) bool {
	switch strings.ToLower(s) {
	case "yes", "no", "on", "off", "y", "n": // other readers take them for booleans
		return false
	}
	_, kind := resolve(s)
	return kind == isText
}
