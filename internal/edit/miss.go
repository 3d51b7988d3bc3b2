package edit

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of a report on text that was not found.
const (
	maxWindow     = 12      // lines shown of the file
	maxShown      = 200     // characters shown of a line
	maxCandidates = 200_000 // places in the file that are compared
)

// notFound reports that a replacement's old text is not in the file: the
// closest lines, and where they begin to differ.
func notFound(name, t string, r Replacement) *tool.Error {
	applied := alreadyApplied(t, r.New)
	message := fmt.Sprintf("old_str was not found in %s", name)
	e := layerError(tool.NotFound, 9, 8, "%s", message)
	e.WithDetail("already_applied", applied)
	from, to, ok := closest(t, r.Old)
	if !ok {
		if applied {
			return e.WithHint("The new text is already there (already_applied); nothing is left to do if this edit was made before.")
		}
		return e.WithHint("No part of the file resembles it. Read the file again and copy the text exactly, without line numbers.")
	}
	file, old := lines(t), lines(r.Old)
	window := file[from-1 : to]
	e.WithDetail("closest", map[string]any{"from": from, "to": to, "text": clip(strings.Join(window, ""), maxWindow*maxShown)})
	var text strings.Builder
	where := fmt.Sprintf("lines %d-%d", from, to)
	if from == to {
		where = fmt.Sprintf("line %d", from)
	}
	e.Message += "; the closest text is at " + where
	if i := diverging(window, old); i >= 0 {
		want := ""
		if i < len(old) {
			want = bare(old[i])
		}
		e.WithDetail("first_divergence", map[string]any{"line": from + i, "file": clip(bare(window[i]), maxShown), "old_str": clip(want, maxShown), "old_str_line": i + 1})
		e.Message += fmt.Sprintf(", and line %d is the first that differs", from+i)
		fmt.Fprintf(&text, "line %d of the file:    %s\nline %d of old_str:     %s\n", from+i, visible(window[i]), i+1, visible(want))
	}
	if text.Len() == 0 && to-from+1 < len(old) {
		fmt.Fprintf(&text, "old_str goes on after line %d of the file, where the file does not.\n", to)
	}
	var shown strings.Builder
	for i, line := range window {
		if i == maxWindow {
			fmt.Fprintf(&shown, "… %d more lines\n", len(window)-i)
			break
		}
		fmt.Fprintf(&shown, "%6d\t%s\n", from+i, clip(bare(line), maxShown))
	}
	hint := "Closest text in the file:\n" + shown.String() + text.String()
	if applied {
		hint += "The new text is already in the file (already_applied). "
	}
	return e.WithHint("%s", hint+"Copy the text from the file exactly (→ is a tab, · a space) and try again.")
}

// diverging is the first line in which the texts differ by more than blanks,
// else the first in which they differ at all; -1 if they do not.
func diverging(window, old []string) int {
	exact := -1
	for i := range window {
		if i >= len(old) {
			break
		}
		if strings.TrimSpace(window[i]) != strings.TrimSpace(old[i]) {
			return i
		}
		if exact < 0 && bare(window[i]) != bare(old[i]) {
			exact = i
		}
	}
	return exact
}

// alreadyApplied reports that the new text is in the file, as far as it says
// anything: a short one must stand as a word of its own.
func alreadyApplied(t, new string) bool {
	if len(strings.TrimSpace(new)) < 3 {
		return false
	}
	if i := strings.Index(t, new); i >= 0 {
		word := func(at int) bool {
			return at >= 0 && at < len(t) && (t[at] == '_' || t[at] >= '0' && t[at] <= '9' || t[at] >= 'A' && t[at] <= 'Z' || t[at] >= 'a' && t[at] <= 'z')
		}
		return len(new) >= 8 || !word(i-1) && !word(i+len(new))
	}
	how := foldEndings | foldBlanks
	return len(new) >= 8 && strings.Contains(foldText(t, how).text, strings.TrimRight(foldText(new, how).text, "\n"))
}

// closest finds the lines of t that resemble old most, 1-based and inclusive.
func closest(t, old string) (from, to int, ok bool) {
	file, want := lines(t), lines(old)
	if len(file) == 0 || len(want) == 0 {
		return 0, 0, false
	}
	// Every line of old that is in the file votes for where old would begin.
	where := map[string][]int{}
	for j, line := range want {
		if key := strings.TrimSpace(line); key != "" && len(where[key]) < 8 {
			where[key] = append(where[key], j)
		}
	}
	votes := map[int]int{}
	best, most := -1, 0
	for i, line := range file {
		if len(votes) > maxCandidates {
			break
		}
		for _, j := range where[strings.TrimSpace(line)] {
			start := i - j
			votes[start] += len(strings.TrimSpace(line)) + 4
			if votes[start] > most || votes[start] == most && start < best {
				best, most = start, votes[start]
			}
		}
	}
	if most == 0 {
		if best, ok = closestLine(file, want); !ok {
			return 0, 0, false
		}
	}
	from = max(best, 0)
	to = min(max(best+len(want), from+1), len(file))
	return from + 1, to, true
}

// closestLine finds the line of the file that shares most with a line of old.
func closestLine(file, want []string) (start int, ok bool) {
	best := 0.5
	for j, line := range want[:min(len(want), 5)] {
		key := strings.TrimSpace(line)
		if key == "" {
			continue
		}
		grams := bigrams(key)
		for i, other := range file[:min(len(file), maxCandidates/min(len(want), 5))] {
			other = strings.TrimSpace(other)
			if other == "" || len(other) > 4*len(key)+40 || len(key) > 4*len(other)+40 {
				continue
			}
			if s := similar(grams, len(key), other); s > best {
				best, start, ok = s, i-j, true
			}
		}
	}
	return start, ok
}

func bigrams(s string) map[[2]byte]int {
	grams := map[[2]byte]int{}
	for i := 1; i < len(s); i++ {
		grams[[2]byte{s[i-1], s[i]}]++
	}
	return grams
}

// similar is the share of pairs of bytes that two lines have in common, from 0
// to 1.
func similar(grams map[[2]byte]int, length int, other string) float64 {
	if length < 2 || len(other) < 2 {
		return 0
	}
	used := map[[2]byte]int{}
	common := 0
	for i := 1; i < len(other); i++ {
		g := [2]byte{other[i-1], other[i]}
		if used[g] < grams[g] {
			used[g]++
			common++
		}
	}
	return 2 * float64(common) / float64(length+len(other)-2)
}

// visible shows the blanks of a line that cannot be seen: all tabs, and spaces
// at both ends.
func visible(line string) string {
	end := ending(line)
	line = clip(bare(line), maxShown)
	body := strings.TrimLeft(line, " \t")
	lead := line[:len(line)-len(body)]
	core := strings.TrimRight(body, " \t")
	tail := body[len(core):]
	show := strings.NewReplacer(" ", "·", "\t", "→")
	out := show.Replace(lead) + strings.ReplaceAll(core, "\t", "→") + show.Replace(tail)
	if end == "\r\n" {
		out += "␍"
	}
	return out
}

// clip cuts s after n bytes, at a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// ambiguous reports that old text occurs more than once.
func ambiguous(name, t string, f found) *tool.Error {
	count := fmt.Sprint(len(f.regions))
	if len(f.regions) >= maxRegions {
		count = "more than " + count
	}
	where := ""
	var numbers []int
	for i, m := range f.regions {
		if i == 10 {
			where += ", …"
			break
		}
		if i > 0 {
			where += ", "
		}
		line := lineOf(t, m.start)
		numbers = append(numbers, line)
		where += fmt.Sprint(line)
	}
	how := ""
	if f.with != MatchExact {
		how = " (with differences in " + f.with + " overlooked)"
	}
	return layerError(tool.Conflict, 9, 9, "old_str is not unique: it occurs %s times in %s%s, at lines %s", count, name, how, where).
		WithHint("Add lines before or after it until it occurs only once, or set replace_all to change every one.").
		WithDetail("count", len(f.regions)).WithDetail("lines", numbers)
}

// lineOf is the number of the line, from 1, that an offset lies in.
func lineOf(t string, offset int) int { return 1 + strings.Count(t[:offset], "\n") }
