package sandbox

import (
	"encoding/json"
	"fmt"
	"time"
)

// duration is a time.Duration that is written in JSON as "1m30s" and read from
// that or from a number of seconds.
type duration time.Duration

func (d duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes "1m30s".
func (d duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads "1m30s" or 90.
func (d *duration) UnmarshalJSON(data []byte) error {
	var seconds float64
	if json.Unmarshal(data, &seconds) == nil {
		*d = duration(seconds * float64(time.Second))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("duration is %s: expected \"30s\" or a number of seconds", data)
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("duration is %q: expected \"30s\" or a number of seconds", text)
	}
	*d = duration(parsed)
	return nil
}
