package yamlin

import (
	"fmt"
	"regexp"
	"strings"
)

// known are the mistakes that are known, tried in this order. Each is a
// function that mends one and says what it did, or leaves the text alone. To add
// one: a function, a line here, and rows in testdata/corpus.
func known() []func(src string, e *syntaxError) (mended, said string, ok bool) {
	return []func(string, *syntaxError) (string, string, bool){
		fences,
		escapedLines,
		shiftedBlock,
		tabs,
		otherBlanks,
		missingSpace,
		backslashes,
		listUnderKey,
		quoteValue,
	}
}

// repair mends the fault if it is a known mistake.
func repair(src string, e *syntaxError) (mended, said string, ok bool) {
	for _, one := range known() {
		if mended, said, ok := one(src, e); ok && mended != src {
			return mended, said, true
		}
	}
	return "", "", false
}

// fences takes off the fence of a code block around the text, with what stands
// before and behind it.
func fences(src string, _ *syntaxError) (string, string, bool) {
	const preface = 50 // lines before the fence at most
	text := strings.TrimRight(src, " \t\n")
	lines := strings.SplitN(text, "\n", preface+1)
	open := -1
	for i, line := range lines[:min(preface, len(lines))] {
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			open = i
			break
		}
		if namesTool.MatchString(line) {
			break
		}
	}
	last := strings.LastIndexByte(text, '\n') + 1
	if open < 0 || open > 0 && len(strings.Join(lines[:open], "\n"))+1 >= last {
		if t := strings.TrimRight(text[last:], " \t"); last > 0 && (t == "```" || t == "~~~") {
			return text[:last], "took off the closing code fence", true
		}
		return "", "", false
	}
	mark := lines[open][:3]
	inside := strings.Join(lines[open+1:], "\n")
	for end := len(inside); end > 0; {
		start := strings.LastIndexByte(inside[:end], '\n') + 1
		if line := inside[start:end]; strings.HasPrefix(line, mark) && strings.Trim(line, "`~ ") == "" {
			return inside[:start], "took off the code fence around the text", true
		}
		end = start - 1
	}
	return inside + "\n", "took off the code fence around the text", true
}

var namesTool = regexp.MustCompile(`^\s*"?(?i:tool|tool_?url|url)"?\s*[:：]`)

// escapedLines turns \n into line feeds where the whole text is one line that
// was escaped once too often.
func escapedLines(src string, _ *syntaxError) (string, string, bool) {
	one := strings.TrimSpace(src)
	if strings.Contains(one, "\n") || !escapedLine.MatchString(one) {
		return "", "", false
	}
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t", `\"`, `"`).Replace(one) + "\n", `read \n as the ends of lines`, true
}

// escapedLine is a field, then \n and another one.
var escapedLine = regexp.MustCompile(`^[\w-]+: .*\\n *[\w-]+:( |\\n|$)`)

// shiftedBlock moves all lines but the first back where only the first lost its
// indentation.
func shiftedBlock(src string, e *syntaxError) (string, string, bool) {
	if e.kind != badIndent {
		return "", "", false
	}
	lines := strings.Split(src, "\n")
	first, shift := -1, -1
	for i, line := range lines {
		t := strings.TrimLeft(line, " ")
		if t == "" {
			continue
		}
		if first < 0 {
			if first = i; len(t) != len(line) {
				return "", "", false
			}
			continue
		}
		if shift < 0 && i+1 != e.line {
			return "", "", false // the second line is right where it is
		}
		if lead := len(line) - len(t); shift < 0 || lead < shift {
			shift = lead
		}
	}
	if shift <= 0 {
		return "", "", false
	}
	for i := first + 1; i < len(lines); i++ {
		lines[i] = lines[i][min(shift, len(lines[i])):]
	}
	return strings.Join(lines, "\n"), fmt.Sprintf("moved all lines below the first by %d spaces to the left", shift), true
}

// header is a line whose text follows below it, with its indentation.
var header = regexp.MustCompile(`(?:^|[:\-]\s+)[|>][0-9+-]*\s*(?:#.*)?$`)

// tabs turns tabs that indent into spaces. Within the text of | or > only the
// indentation of its first line is, so that tabs of the content stay.
func tabs(src string, e *syntaxError) (string, string, bool) {
	if e.kind != tabIndent {
		return "", "", false
	}
	lines := strings.Split(src, "\n")
	width := tabWidth(lines)
	wide := func(lead string) int { return len(lead) + strings.Count(lead, "\t")*(width-1) }
	text, prefix, above := false, "", 0
	for i, line := range lines {
		lead := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		if lead == line {
			continue // blank
		}
		if text && prefix == "" && wide(lead) > above {
			prefix = lead
		}
		if text && prefix != "" && strings.HasPrefix(line, prefix) {
			lines[i] = strings.Repeat(" ", wide(prefix)) + line[len(prefix):]
			continue
		}
		if text && wide(lead) > above {
			continue // neither content nor what follows it: that remains an error
		}
		lines[i] = strings.Repeat(" ", wide(lead)) + line[len(lead):]
		text, prefix, above = strings.ContainsAny(line, "|>") && header.MatchString(line), "", wide(lead)
	}
	return strings.Join(lines, "\n"), "turned tabs that indent into spaces", true
}

// tabWidth is the smallest indentation by spaces alone, else 2.
func tabWidth(lines []string) int {
	width := 0
	for _, line := range lines {
		t := strings.TrimLeft(line, " ")
		if lead := len(line) - len(t); t != "" && t[0] != '\t' && lead > 0 && (width == 0 || lead < width) {
			width = lead
		}
	}
	if width < 2 || width > 8 {
		return 2
	}
	return width
}

// otherBlanks turns blanks of other kinds that indent a line, and the wide colon
// behind a key, into YAML's.
func otherBlanks(src string, e *syntaxError) (string, string, bool) {
	if e.kind != noColon && e.kind != badIndent && e.kind != nestedColon {
		return "", "", false
	}
	mended := plainBlanks(e.show)
	if mended == e.show {
		mended = wideColon.ReplaceAllString(e.show, "$1: ")
	}
	return replaceLine(src, e, mended), fmt.Sprintf("read the blanks and colons of line %d as plain ones", e.line), mended != e.show
}

// plainBlanks makes what indents a line plain blanks.
func plainBlanks(line string) string {
	text := strings.TrimLeft(line, " \u00a0\u3000\u2002\u2003")
	lead := line[:len(line)-len(text)]
	if strings.Trim(lead, " ") == "" {
		return line
	}
	return strings.Repeat(" ", len([]rune(lead))) + text
}

var wideColon = regexp.MustCompile(`^(\s*(?:- )?[\w-]+)：[ \x{3000}]*`)

// replaceLine puts another line where the fault is.
func replaceLine(src string, e *syntaxError, line string) string {
	return src[:e.bol] + line + src[e.bol+len(e.show):]
}

// noSpace is a key whose colon has no space behind it.
var noSpace = regexp.MustCompile(`^(\s*(?:- )?[A-Za-z_][\w-]*):([^\s:/\\].*)$`)

// missingSpace puts a space behind the colon of a key.
func missingSpace(src string, e *syntaxError) (string, string, bool) {
	if e.kind != noColon {
		return "", "", false
	}
	m := noSpace.FindStringSubmatch(e.show)
	if m == nil {
		return "", "", false
	}
	return replaceLine(src, e, m[1]+": "+m[2]), "put a space behind the colon of a key", true
}

// drivePath is the beginning of a path of Windows.
var drivePath = regexp.MustCompile(`^(?:[A-Za-z]:\\|\\\\[\w.])`)

// backslashes doubles those in double quotes that escape nothing; in a path of
// Windows all that stand alone.
func backslashes(src string, e *syntaxError) (string, string, bool) {
	if e.kind != badEscape || src[e.from] != '"' {
		return "", "", false
	}
	start := e.from + 1
	if !drivePath.MatchString(src[start:]) {
		return src[:e.at] + `\` + src[e.at:], fmt.Sprintf("took a backslash in line %d as it stands", e.line), true
	}
	var b strings.Builder
	i := start
	if strings.HasPrefix(src[i:], `\\`) { // that of the network is no pair
		b.WriteString(`\\\\`)
		i += 2
	}
	for ; i < len(src) && src[i] != '"' && src[i] != '\n'; i++ {
		b.WriteByte(src[i])
		if src[i] != '\\' {
			continue
		}
		b.WriteByte('\\')
		if i+1 < len(src) && src[i+1] == '\\' {
			i++ // a pair is one already
		}
	}
	return src[:start] + b.String() + src[i:], fmt.Sprintf("took the backslashes of the path in line %d as they stand", e.line), true
}

// listUnderKey puts the first item of a list that stands behind its key into a
// line of its own, or quotes it if nothing of a list follows.
func listUnderKey(src string, e *syntaxError) (string, string, bool) {
	if e.kind != listOnKey {
		return "", "", false
	}
	column := e.at - e.bol
	next, _, _ := strings.Cut(src[min(e.bol+len(e.show)+1, len(src)):], "\n")
	if lead := len(next) - len(strings.TrimLeft(next, " ")); strings.HasPrefix(next[lead:], "- ") {
		item := strings.Repeat(" ", lead) + e.show[column:]
		return replaceLine(src, e, strings.TrimRight(e.show[:column], " ")+"\n"+item), fmt.Sprintf("put the first item of the list into the line below its key (line %d)", e.line), true
	}
	return "", "", false
}

// quoteValue puts the rest of the line from the value with the fault into single
// quotes. A value that is in quotes with others of the kind inside keeps what is
// between the outer ones.
func quoteValue(src string, e *syntaxError) (string, string, bool) {
	switch e.kind {
	case reserved, nestedColon, afterQuote, afterFlow, unusedAnchor:
	default:
		return "", "", false
	}
	if e.from < e.bol || e.from >= e.bol+len(e.show) {
		return "", "", false // it began in an earlier line
	}
	column := e.from - e.bol
	value := strings.TrimRight(e.show[column:], " \t")
	before := e.show[:column]
	if !valueBegins.MatchString(before) && !(before == "" && !strings.Contains(strings.TrimSpace(src), "\n")) {
		return "", "", false
	}
	if e.kind == afterFlow && strings.Contains(e.what, "closed") && strings.Count(src[e.bol:], "\n") > 0 && !strings.ContainsAny(value, "]}") {
		return "", "", false // a list over several lines that is cut off
	}
	if inner, ok := insideQuotes(value); ok && e.kind == afterQuote {
		value = inner
	}
	quoted := "'" + strings.ReplaceAll(value, "'", "''") + "'"
	return replaceLine(src, e, before+quoted), fmt.Sprintf("put the value of line %d in quotes", e.line), true
}

// valueBegins is what stands in a line before a value.
var valueBegins = regexp.MustCompile(`^\s*(?:- +)*(?:(?:"[^"]*"|'[^']*'|[^:#'"]+|[^'"]*\S):\s+)?$`)

// insideQuotes gives what is between the outer quotes of text like "say "hi" now".
// Of "a" and "b" the outer ones are no pair.
func insideQuotes(value string) (string, bool) {
	if len(value) < 2 || value[len(value)-1] != value[0] {
		return "", false
	}
	inner, quote := value[1:len(value)-1], value[0]
	i := strings.IndexByte(inner, quote)
	if i < 0 || i+1 < len(inner) && strings.IndexByte(" ,;+", inner[i+1]) >= 0 && (i == 0 || inner[i-1] != ' ') {
		return "", false
	}
	if quote == '"' {
		inner = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(inner)
	}
	return inner, true
}

// joined are fields of a request with no space behind the colon.
var joined = regexp.MustCompile(`(?m)^((?i:tool|tool_?url|url|mode|operation|parameters)):(\S)`)

// repairMeaning mends a text that is YAML but no request.
func repairMeaning(text string) (mended, said string, ok bool) {
	src := normalise(text)
	if strings.Contains(strings.TrimSpace(src), "\n") || !strings.HasPrefix(strings.ToLower(strings.TrimSpace(src)), "tool://") {
		spaced := joined.ReplaceAllStringFunc(src, func(m string) string {
			i := strings.IndexByte(m, ':')
			if m[i+1:] == "/" {
				return m // tool://
			}
			return m[:i+1] + " " + m[i+1:]
		})
		if spaced != src {
			return spaced, "put a space behind the colon of a key", true
		}
	}
	if mended, said, ok := escapedLines(src, nil); ok {
		return mended, said, true
	}
	lines := strings.Split(src, "\n")
	for i, line := range lines {
		lines[i] = wideColon.ReplaceAllString(plainBlanks(line), "$1: ")
	}
	mended = strings.Join(lines, "\n")
	return mended, "read wide blanks and colons as plain ones", mended != src
}
