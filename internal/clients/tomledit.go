package clients

import (
	"bytes"
	"slices"
	"strings"
)

func (d *tomlDoc) eol() string {
	if i := bytes.IndexByte(d.data, '\n'); i > 0 && d.data[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// set gives the value at keys. Where it is written depends on how the table that
// it belongs to is: a section, keys with dots, or an inline table.
func (d *tomlDoc) set(keys []string, value any) error {
	root, err := d.decode()
	if err != nil {
		return err
	}
	old := at(root, keys)
	if old != nil && same(old, value) {
		return nil
	}
	list, err := scanTOML(d.data)
	if err != nil {
		return err
	}
	for _, st := range list {
		switch {
		case st.header || !hasPrefix(keys, st.path):
		case len(st.path) == len(keys):
			d.data = splice(d.data, st.start, st.end, tomlValue(value))
			return nil
		case st.start < len(d.data) && d.data[st.start] == '{':
			return d.setInline(st.start, keys[len(st.path):], value)
		}
	}
	if old != nil { // spread over several statements
		if _, err := d.remove(keys); err != nil {
			return err
		}
		if list, err = scanTOML(d.data); err != nil {
			return err
		}
	}
	if section, ok := value.(fields); ok {
		d.appendSection(keys, section)
		return nil
	}
	d.insertKey(list, keys, value)
	return nil
}

// setInline sets a value inside the inline table at an offset.
func (d *tomlDoc) setInline(at int, keys []string, value any) error {
	members, closing, err := d.inline(at)
	if err != nil {
		return err
	}
	for _, m := range members {
		if !hasPrefix(keys, m.path) {
			continue
		}
		if len(m.path) == len(keys) {
			d.data = splice(d.data, m.start, m.end, tomlValue(value))
			return nil
		}
		if d.data[m.start] == '{' {
			return d.setInline(m.start, keys[len(m.path):], value)
		}
	}
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = tomlKey(key)
	}
	text := strings.Join(parts, ".") + " = " + tomlValue(value)
	if len(members) == 0 {
		d.data = splice(d.data, at+1, closing, " "+text+" ")
		return nil
	}
	end := members[len(members)-1].end
	d.data = splice(d.data, end, end, ", "+text)
	return nil
}

// appendSection writes a section at the end of the document.
func (d *tomlDoc) appendSection(keys []string, section fields) {
	eol := d.eol()
	var b strings.Builder
	if body := d.body(); len(body) > 0 {
		if !bytes.HasSuffix(body, []byte("\n")) {
			b.WriteString(eol)
		}
		if len(bytes.TrimSpace(body)) > 0 && !bytes.HasSuffix(body, []byte("\n\n")) && !bytes.HasSuffix(body, []byte("\n\r\n")) {
			b.WriteString(eol)
		}
	}
	b.WriteString(tomlHeader(keys) + eol)
	for _, f := range section {
		b.WriteString(tomlKey(f.key) + " = " + tomlValue(f.value) + eol)
	}
	d.data = append(slices.Clone(d.data), b.String()...)
}

func tomlHeader(keys []string) string {
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = tomlKey(key)
	}
	return "[" + strings.Join(parts, ".") + "]"
}

// insertKey adds a key to a table that is there, after the last of its keys.
func (d *tomlDoc) insertKey(list []statement, keys []string, value any) {
	table, key := keys[:len(keys)-1], keys[len(keys)-1]
	line := tomlKey(key) + " = " + tomlValue(value)
	eol := d.eol()
	for i, st := range list {
		if st.header && slices.Equal(st.path, table) {
			at, indent := st.end, ""
			for _, next := range list[i+1:] {
				if next.header {
					break
				}
				at, indent = next.end, indentAt(d.data, next.keyStart)
			}
			at = lineEnd(d.data, at)
			d.data = splice(d.data, at, at, eol+indent+line)
			return
		}
	}
	for i := len(list) - 1; i >= 0; i-- { // toolyard.command = …, written with dots
		st := list[i]
		if !st.header && len(st.path) == len(keys) && hasPrefix(st.path, table) {
			prefix := string(d.data[st.keyStart:st.lastKey])
			at := lineEnd(d.data, st.end)
			d.data = splice(d.data, at, at, eol+indentAt(d.data, st.keyStart)+prefix+line)
			return
		}
	}
	for _, st := range list { // only tables below it have headers
		if st.header && hasPrefix(st.path, table) {
			at := lineStart(d.data, st.start)
			d.data = splice(d.data, at, at, tomlHeader(table)+eol+line+eol+eol)
			return
		}
	}
	d.appendSection(table, fields{{key, value}})
}

// remove takes away what is at keys: statements with their lines, or a member of
// an inline table.
func (d *tomlDoc) remove(keys []string) (bool, error) {
	root, err := d.decode()
	if err != nil {
		return false, err
	}
	if at(root, keys) == nil {
		return false, nil
	}
	list, err := scanTOML(d.data)
	if err != nil {
		return false, err
	}
	for _, st := range list {
		if !st.header && len(st.path) < len(keys) && hasPrefix(keys, st.path) && d.data[st.start] == '{' {
			return true, d.removeInline(st.start, keys[len(st.path):])
		}
	}
	for _, st := range slices.Backward(list) {
		if hasPrefix(st.path, keys) {
			d.removeLine(st)
		}
	}
	return true, nil
}

// removeLine takes a statement away with its line, and for a header with the
// blank line that set it apart.
func (d *tomlDoc) removeLine(st statement) {
	from, to := lineStart(d.data, st.keyStart), lineEnd(d.data, st.end)
	if to < len(d.data) && d.data[to] == '\r' {
		to++
	}
	if to < len(d.data) && d.data[to] == '\n' {
		to++
	}
	rest := bytes.TrimLeft(d.data[to:], " \t")
	apart := len(rest) == 0 || rest[0] == '\n' || rest[0] == '\r'
	if st.header && apart && from > 0 {
		if before := lineStart(d.data, from-1); len(bytes.TrimSpace(d.data[before:from])) == 0 {
			from = before
		}
	}
	d.data = splice(d.data, from, to, "")
}

func (d *tomlDoc) removeInline(at int, keys []string) error {
	members, _, err := d.inline(at)
	if err != nil {
		return err
	}
	for i := len(members) - 1; i >= 0; i-- {
		m := members[i]
		if len(m.path) < len(keys) && hasPrefix(keys, m.path) && d.data[m.start] == '{' {
			return d.removeInline(m.start, keys[len(m.path):])
		}
		if !hasPrefix(m.path, keys) {
			continue
		}
		from, to := m.keyStart, m.end
		switch {
		case i+1 < len(members):
			to = members[i+1].keyStart
		case i > 0:
			from = members[i-1].end
		}
		d.data = splice(d.data, from, to, "")
		if members, _, err = d.inline(at); err != nil {
			return err
		}
		i = min(i, len(members))
	}
	return nil
}
