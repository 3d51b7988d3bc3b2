package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/tool"
)

// asker puts questions to the person at the terminal, one at a time.
type asker struct {
	in        io.Reader
	out       io.Writer
	look      look
	progress  *progress
	arguments json.RawMessage
	whole     bool // arguments are shown at length

	mu    sync.Mutex
	lines chan string
}

// asker gives who answers questions of a call: the person at the terminal, or
// nil if stdin is not one. With stderr sent elsewhere the question is put to the
// terminal itself.
func (p *program) asker(g *progress, arguments json.RawMessage) toolyard.Asker {
	if !p.inTTY {
		return nil
	}
	a := &asker{in: p.stdin, out: p.stderr, look: p.err, progress: g, arguments: arguments}
	if p.errTTY {
		return a
	}
	tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0)
	if err != nil {
		return nil
	}
	a.out, a.look = tty, look{colours()} // open until the process ends
	return a
}

// Ask shows q and waits for a valid answer until ctx is done.
func (a *asker) Ask(ctx context.Context, q tool.Question) (tool.Answer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.progress.pause()
	defer a.progress.resume()
	a.show(q)
	for {
		line, err := a.line(ctx, "> ")
		if err != nil {
			return tool.Answer{}, err
		}
		answer, again := choose(q, line)
		if again != "" {
			fmt.Fprintln(a.out, a.look.yellow(again))
			continue
		}
		if answer.Option == "reject" && answer.Text == "" {
			if answer.Text, err = a.line(ctx, "Why not (the model reads it; Enter for no reason)? "); err != nil {
				return tool.Answer{}, err
			}
		}
		answer.By = userName()
		return answer, nil
	}
}

// show prints the question: for a permission the tool, what it is about to do,
// the reason, the rule, and what "always" would save.
func (a *asker) show(q tool.Question) {
	w, l := a.out, a.look
	fmt.Fprintf(w, "\n%s\n", l.bold(printable(q.Title)))
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %s %s\n", l.dim(fmt.Sprintf("%-10s", name)), printable(value))
		}
	}
	if q.Kind == "permission" || q.Kind == "doom_loop" {
		field("arguments", argumentsText(a.arguments, a.width()))
	}
	if parts := partsOf(q); len(parts) > 1 {
		for _, part := range parts {
			field(fmt.Sprint(part["kind"]), fmt.Sprint(part["text"]))
		}
	}
	name := ""
	if q.Kind == "permission" {
		name = "reason"
	}
	field(name, q.Text)
	if rule, _ := q.Details["rule"].(string); rule != "" {
		if source, _ := q.Details["source"].(string); source != "" {
			rule += " (" + source + ")"
		}
		field("rule", rule)
	}
	for i, o := range q.Options {
		line := fmt.Sprintf("  %s %s", l.cyan(optionKey(q, i)), o.Label)
		if o.Description != "" {
			line += l.dim(": " + o.Description)
		}
		fmt.Fprintln(w, printable(line))
	}
}

// width is how much of a call's arguments is shown. Who comes from elsewhere to
// approve a call has not typed it and sees all that a terminal bears.
func (a *asker) width() int {
	if a.whole {
		return 8000
	}
	return 400
}

// partsOf are the parts of a call that are asked about, as the executor made them
// or as the record gives them back.
func partsOf(q tool.Question) []map[string]any {
	parts, _ := q.Details["parts"].([]map[string]any)
	kept, _ := q.Details["parts"].([]any)
	for _, v := range kept {
		if part, ok := v.(map[string]any); ok {
			parts = append(parts, part)
		}
	}
	return parts
}

// optionKey is what is typed for an option: its first letter where those differ,
// else its number.
func optionKey(q tool.Question, i int) string {
	seen := map[string]bool{}
	for _, o := range q.Options {
		if o.ID == "" || seen[o.ID[:1]] {
			return strconv.Itoa(i + 1)
		}
		seen[o.ID[:1]] = true
	}
	return q.Options[i].ID[:1]
}

// choose reads an answer; again says why the line is none.
func choose(q tool.Question, line string) (answer tool.Answer, again string) {
	line = strings.TrimSpace(line)
	if len(q.Options) == 0 {
		if line == "" {
			return tool.Answer{}, "Please type an answer."
		}
		return tool.Answer{Text: line}, ""
	}
	word, rest, _ := strings.Cut(line, " ")
	var keys []string
	for i, o := range q.Options {
		key := optionKey(q, i)
		if word != "" && (strings.EqualFold(word, key) || strings.EqualFold(word, o.ID) || strings.EqualFold(word, strconv.Itoa(i+1))) {
			return tool.Answer{Option: o.ID, Text: strings.TrimSpace(rest)}, ""
		}
		keys = append(keys, key)
	}
	if line == "" && q.Default != "" {
		return tool.Answer{Option: q.Default}, ""
	}
	return tool.Answer{}, "Please type " + strings.Join(keys, ", ") + "."
}

// line reads one line of the terminal, until ctx is done. The goroutine that
// reads ends with stdin or the process: a read of a terminal cannot be ended.
func (a *asker) line(ctx context.Context, prompt string) (string, error) {
	a.read()
	fmt.Fprint(a.out, prompt)
	select {
	case line, ok := <-a.lines:
		if !ok {
			return "", tool.ErrNoChannel
		}
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(a.out)
		return "", context.Cause(ctx)
	}
}

// read begins to read lines; a.mu is held.
func (a *asker) read() {
	if a.lines != nil {
		return
	}
	a.lines = make(chan string)
	go func() {
		defer close(a.lines)
		for s := bufio.NewScanner(a.in); s.Scan(); {
			a.lines <- s.Text()
		}
	}()
}

// consent answers every question with yes, in the name of the person who typed
// the command.
type consent struct{}

func (consent) Ask(_ context.Context, q tool.Question) (tool.Answer, error) {
	if q.Kind != "permission" {
		return tool.Answer{}, tool.ErrNoChannel
	}
	return tool.Answer{Option: "once", By: userName()}, nil
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return "a person"
}
