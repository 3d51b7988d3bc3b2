package pydeps

import (
	"bytes"
	"strings"
)

const (
	logKept = 16 << 10 // bytes of an installer's output for the error
	logLine = 4 << 10  // bytes of a line; the rest is dropped
)

// log keeps the end of what an installer says and tells its lines on.
type log struct {
	tell func(string)
	line []byte
	kept []byte
}

func newLog(tell func(string)) *log { return &log{tell: tell} }

func (l *log) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		text, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := logLine - len(l.line); room > 0 {
			l.line = append(l.line, text[:min(len(text), room)]...)
		}
		if ended {
			l.flush()
		}
		rest = after
	}
	return len(p), nil
}

// escapes are what colours a terminal.
var escapes = lazy("\x1b\\[[0-9;?]*[A-Za-z]")

func (l *log) flush() {
	text := strings.TrimSpace(strings.ToValidUTF8(escapes().ReplaceAllString(string(l.line), ""), "�"))
	l.line = l.line[:0]
	if text == "" {
		return
	}
	l.kept = append(append(l.kept, text...), '\n')
	if over := len(l.kept) - logKept; over > 0 {
		cut := over + max(bytes.IndexByte(l.kept[over:], '\n'), 0)
		l.kept = append(l.kept[:0], l.kept[cut:]...)
	}
	if strings.HasPrefix(text, "Collecting ") || strings.HasPrefix(text, "Downloading ") || strings.HasPrefix(text, "Installing ") || strings.HasPrefix(text, "Building ") {
		l.tell(text)
	}
}

// tail is what was kept.
func (l *log) tail() string {
	l.flush()
	return string(l.kept)
}

// reason is the installer's own word for what went wrong: its last error that is
// not the same in other words, else its last line.
func (l *log) reason() string {
	lines := strings.Split(strings.TrimSpace(l.tail()), "\n")
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "ERROR: "); ok {
			return text
		}
	}
	for _, line := range lines {
		if text, ok := strings.CutPrefix(line, "error: "); ok {
			return text
		}
	}
	if last := lines[len(lines)-1]; last != "" {
		return last
	}
	return "the installer gave no reason"
}

var missingPattern = lazy(`(?:No matching distribution found for|Could not find a version that satisfies the requirement) ([A-Za-z0-9._-]+)`)

// missing is the package that could not be found, "" if it was something else.
func (l *log) missing() string {
	if m := missingPattern().FindStringSubmatch(l.tail()); m != nil {
		return m[1]
	}
	return ""
}

// unreachablePattern is what installers say of a network that is not there.
var unreachablePattern = lazy(`Connection refused|Name or service not known|Temporary failure in name resolution|Network is unreachable|` +
	`[Tt]imed? ?out|Cannot connect to proxy|Connection reset|Max retries exceeded|CERTIFICATE_VERIFY_FAILED|HTTP error [45]\d\d|\b50[0-9] (?:Server Error|Bad Gateway|Service Unavailable)|` +
	`\b40[13] (?:Client Error|Unauthorized|Forbidden)|Connection aborted|dns error`)

// unreachable is what was said of an index that does not answer, "" if it was
// something else.
func (l *log) unreachable() string { return unreachablePattern().FindString(l.tail()) }
