package dotenv

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/tool"
)

// Save writes values, and nothing else, to the file at path, as [Format] has
// them. The file is whole at any moment, the old or the new one, and only its
// owner may read it. A symbolic link at path is replaced, not followed.
func Save(path, name, title string, values map[string]string, now time.Time) error {
	data, err := Format(name, title, values, now)
	if err != nil {
		return err
	}
	return locked(path, func() error { return write(path, data) })
}

// Update changes some values of the file at path and returns all that it then
// holds. A nil removes a key. Lines that are not changed stay as they are, with
// comments; a line with a quote that nothing closes becomes a comment, because
// it would swallow what comes after it. Two updates at once are both kept. It
// fails as [Load] and [Format] do; CONFLICT says that another process holds the
// file's folder for more than 5 s.
func Update(path, name, title string, changes map[string]*string, now time.Time) (Values, []Fault, error) {
	var values Values
	var faults []Fault
	err := locked(path, func() error {
		old, err := read(path)
		if err != nil {
			return err
		}
		data, err := Merge(old, name, title, changes, now)
		if err != nil {
			return err
		}
		values, faults = Parse(data)
		return write(path, data)
	})
	if err != nil {
		return nil, nil, err
	}
	return values, faults, nil
}

// Merge is what [Update] makes of the text of a file.
func Merge(old []byte, name, title string, changes map[string]*string, now time.Time) ([]byte, error) {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		value := ""
		if v := changes[key]; v != nil {
			value = *v
		} else if readableKey(key) {
			continue // what could be read can be removed
		}
		if err := check(key, value); err != nil {
			return nil, err
		}
	}
	old = bytes.TrimPrefix(old, []byte("\ufeff"))
	want, _ := Parse(old)
	list := withoutHeader(old, scan(old))
	last := map[string]int{}
	for i, s := range list {
		if s.holds {
			last[s.key] = i
		}
	}
	var b strings.Builder
	b.WriteString(header(name, title, now))
	for i, s := range list {
		raw := string(old[s.start:s.end])
		change, changed := changes[s.key]
		switch {
		case s.open:
			raw = "# not readable: " + strings.TrimLeft(raw, " \t")
		case !changed || !s.holds:
		case change != nil && last[s.key] == i:
			raw = assignment(s.key, *change)
		default:
			continue
		}
		b.WriteString(raw)
		if !strings.HasSuffix(raw, "\n") {
			b.WriteByte('\n')
		}
	}
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		v := changes[key]
		if v == nil {
			delete(want, key)
			continue
		}
		want[key] = *v
		if _, there := last[key]; !there {
			b.WriteString(assignment(key, *v))
		}
	}
	// Lines by other hands stand between ours. That they mean what they meant
	// before is checked rather than believed.
	if got, _ := Parse([]byte(b.String())); !maps.Equal(got, want) {
		return nil, tool.Errorf(tool.Conflict, "the lines of the .env file do not fit with the changed ones").
			WithHint("Put the file in order by hand, or remove it and configure the tool anew.")
	}
	return sized(b.String())
}

// withoutHeader leaves out the comment lines that header wrote.
func withoutHeader(data []byte, list []segment) []segment {
	if len(list) < 4 {
		return list
	}
	line := func(i int) string { return string(data[list[i].start:list[i].end]) }
	if strings.HasPrefix(line(0), "#") && strings.HasPrefix(line(1), headTool) &&
		strings.HasPrefix(line(2), headGenerator) && strings.HasPrefix(line(3), headModified) {
		return list[4:]
	}
	return list
}

// write puts data in the place of path, at once.
func write(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".env-*.tmp") // mode 0600
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	if _, err := f.Write(data); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	// On Unix this replaces a link too. A folder in the place is an error.
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}
