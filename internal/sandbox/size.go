package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a number of bytes such as "256M", "1.5GiB" or "1048576"; all
// units are powers of 1024. Nothing is zero, "none" is no limit (-1). It is false
// for anything else, for less than one byte, and for more than there can be.
func ParseSize(text string) (int64, bool) {
	switch text {
	case "":
		return 0, true
	case "none":
		return -1, true
	}
	number, unit := strings.ToUpper(text), int64(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = rest, u.bytes
			break
		}
	}
	number = strings.TrimSpace(number)
	n, err := strconv.ParseFloat(number, 64)
	n *= float64(unit)
	// ParseFloat takes more than digits: 1e3, 0x1p4, inf, _.
	if err != nil || strings.Trim(number, "0123456789.") != "" || n < 1 || n > math.MaxInt64/2 {
		return 0, false
	}
	return int64(n), true
}

// sizeUnits are what a size may end with. Longer names come first.
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KIB", 1 << 10}, {"MIB", 1 << 20}, {"GIB", 1 << 30}, {"TIB", 1 << 40},
	{"KB", 1 << 10}, {"MB", 1 << 20}, {"GB", 1 << 30}, {"TB", 1 << 40},
	{"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", 1 << 40}, {"B", 1},
}

// size is a number of bytes that is written in JSON as that and read from it or
// from "256M".
type size int64

// UnmarshalJSON reads 1048576 or "1MiB".
func (s *size) UnmarshalJSON(data []byte) error {
	var n int64
	if json.Unmarshal(data, &n) == nil {
		*s = size(n)
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) == nil {
		if n, ok := ParseSize(text); ok {
			*s = size(n)
			return nil
		}
	}
	return fmt.Errorf("size is %.80s: expected bytes, \"256M\" or \"none\"", data)
}
