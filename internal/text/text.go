// Package text finds out how the bytes of a file encode text, and goes from
// bytes to UTF-8 and back without losing where each byte came from. It does
// not know files, tools or edits.
//
// Nothing here ever re-encodes what it was not asked to: [Encoding.Decode]
// gives a [Text] whose [Text.Raw] maps an offset in the UTF-8 text to the
// offset in the original bytes, so that an edit can leave the rest alone.
package text

import (
	"bytes"
	"fmt"
	"io"
	"sort"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Window is how many bytes [Detect] looks at to tell legacy encodings apart;
// the start of a file of that size is enough for it.
const Window = 64 << 10

// Names of the encodings, as shown to users.
const (
	UTF8        = "utf-8"
	UTF16LE     = "utf-16le"
	UTF16BE     = "utf-16be"
	GB18030     = "gb18030" // and GBK, GB2312
	Big5        = "big5"
	ShiftJIS    = "shift_jis"
	EUCKR       = "euc-kr"
	Latin1      = "iso-8859-1"
	Windows1252 = "windows-1252"
	Binary      = "binary"
)

// Encoding is how the bytes of a file stand for text. The zero value is plain
// UTF-8. Encodings are values and compare with ==.
type Encoding struct {
	// Name is one of the constants; "" counts as UTF8.
	Name string
	// BOM says that the file begins with a byte order mark, which is no part of
	// its text.
	BOM bool
}

// String is the name, with a word about the mark.
func (e Encoding) String() string {
	name := e.Name
	if name == "" {
		name = UTF8
	}
	if e.BOM {
		name += " with BOM"
	}
	return name
}

// IsBinary reports that the bytes are not text.
func (e Encoding) IsBinary() bool { return e.Name == Binary }

// IsUTF8 reports that text and bytes are the same, but for the mark.
func (e Encoding) IsUTF8() bool { return e.Name == UTF8 || e.Name == "" }

// Mark is the byte order mark of the file; nil if it has none.
func (e Encoding) Mark() []byte {
	if !e.BOM {
		return nil
	}
	switch e.Name {
	case UTF16LE:
		return []byte{0xff, 0xfe}
	case UTF16BE:
		return []byte{0xfe, 0xff}
	}
	return []byte{0xef, 0xbb, 0xbf}
}

// codec is the transformer pair; nil for UTF-8 and binary.
func (e Encoding) codec() encoding.Encoding {
	switch e.Name {
	case UTF16LE:
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case UTF16BE:
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	case GB18030:
		return simplifiedchinese.GB18030
	case Big5:
		return traditionalchinese.Big5
	case ShiftJIS:
		return japanese.ShiftJIS
	case EUCKR:
		return korean.EUCKR
	case Latin1:
		return charmap.ISO8859_1
	case Windows1252:
		return charmap.Windows1252
	}
	return nil
}

// Reader gives the text of r, which starts at the file's first byte, as UTF-8
// without the mark. Legacy bytes that stand for nothing become U+FFFD; invalid
// UTF-8 passes unchanged.
func (e Encoding) Reader(r io.Reader) io.Reader {
	if mark := e.Mark(); mark != nil {
		r = &skipper{r: r, prefix: mark}
	}
	if codec := e.codec(); codec != nil {
		return transform.NewReader(r, codec.NewDecoder())
	}
	return r
}

// skipper drops a prefix from a stream.
type skipper struct {
	r      io.Reader
	prefix []byte
}

func (s *skipper) Read(p []byte) (int, error) {
	if s.prefix != nil {
		head := make([]byte, len(s.prefix))
		n, err := io.ReadFull(s.r, head)
		if !bytes.Equal(head[:n], s.prefix) {
			s.r = io.MultiReader(bytes.NewReader(head[:n]), s.r)
		}
		s.prefix = nil
		if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return 0, err
		}
	}
	return s.r.Read(p)
}

// Text is decoded text that remembers its bytes.
type Text struct {
	// UTF8 is the text without the byte order mark.
	UTF8 string
	// Encoding is what it was decoded from.
	Encoding Encoding

	raw   []byte
	marks []mark // rising; nil if offsets are the same but for skip
	skip  int    // length of the byte order mark
}

// mark says that text and raw offsets belong together.
type mark struct{ text, raw int }

// markEvery is how many bytes of text lie between two marks at most.
const markEvery = 4 << 10

// Decode decodes all bytes of a file. For UTF-8 invalid bytes stay in the text
// as they are; in the other encodings they read as U+FFFD.
func (e Encoding) Decode(raw []byte) *Text {
	t := &Text{Encoding: e, raw: raw}
	if mark := e.Mark(); mark != nil && bytes.HasPrefix(raw, mark) {
		t.skip = len(mark)
	}
	codec := e.codec()
	if codec == nil {
		t.UTF8 = string(raw[t.skip:])
		return t
	}
	var out strings.Builder
	out.Grow(len(raw) + len(raw)/2)
	t.walk(codec.NewDecoder(), t.skip, len(raw), make([]byte, markEvery), func(text []byte, at int) {
		t.marks = append(t.marks, mark{out.Len(), at})
		out.Write(text)
	})
	t.UTF8 = out.String()
	t.marks = append(t.marks, mark{len(t.UTF8), len(raw)})
	return t
}

// walk decodes raw[from:to] in pieces that fit into buf and gives each with the
// raw offset where it starts.
func (t *Text) walk(d transform.Transformer, from, to int, buf []byte, piece func(text []byte, at int)) {
	for from < to {
		n, used, err := d.Transform(buf, t.raw[from:to], true)
		if used == 0 {
			// A decoder that can do nothing with what is left, which those in use
			// do not do: one byte is one unknown character.
			n, used = copy(buf, "\uFFFD"), 1
		}
		piece(buf[:n], from)
		from += used
		if err != nil && err != transform.ErrShortDst && n == 0 {
			return
		}
	}
}

// Raw is the offset in the file's bytes of the character that begins at, or
// lies around, an offset in UTF8. The end of the text is the end of the file.
func (t *Text) Raw(offset int) int {
	if t.marks == nil {
		return min(offset+t.skip, len(t.raw))
	}
	if offset >= len(t.UTF8) {
		return len(t.raw)
	}
	i := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].text > offset }) - 1
	at := t.marks[i]
	// Between two marks, decode one character at a time. All these encodings
	// need at most 4 bytes for one.
	d := t.Encoding.codec().NewDecoder()
	var buf [2 * utf8.UTFMax]byte
	text, raw := at.text, at.raw
	for text < offset {
		n, used := oneChar(d, buf[:], t.raw[raw:])
		if text+n > offset {
			break
		}
		text, raw = text+n, raw+used
	}
	return raw
}

// oneChar decodes the first character of src: it offers more and more bytes
// until the decoder has taken some.
func oneChar(d transform.Transformer, buf, src []byte) (n, used int) {
	for size := 1; size <= min(4, len(src)); size++ {
		n, used, _ = d.Transform(buf, src[:size], size == len(src))
		if used > 0 {
			return n, used
		}
	}
	return copy(buf, "\uFFFD"), 1
}

// EncodeError says that an encoding has no bytes for a character.
type EncodeError struct {
	Rune     rune
	Encoding Encoding
}

func (e *EncodeError) Error() string {
	return fmt.Sprintf("the encoding %s has no character %q (U+%04X)", e.Encoding.Name, e.Rune, e.Rune)
}

// Encode turns text into bytes, without a byte order mark. A character that the
// encoding lacks is an *EncodeError.
func (e Encoding) Encode(text string) ([]byte, error) {
	codec := e.codec()
	if codec == nil {
		return []byte(text), nil
	}
	raw, err := codec.NewEncoder().Bytes([]byte(text))
	if err == nil && utf8.ValidString(text) {
		// Some tables have characters that come back as others; a file must not
		// get those.
		if back, err := codec.NewDecoder().Bytes(raw); err == nil && string(back) == text {
			return raw, nil
		}
	}
	for _, r := range text {
		raw, err := codec.NewEncoder().Bytes([]byte(string(r)))
		if err != nil {
			return nil, &EncodeError{Rune: r, Encoding: e}
		}
		if back, err := codec.NewDecoder().Bytes(raw); err != nil || string(back) != string(r) {
			return nil, &EncodeError{Rune: r, Encoding: e}
		}
	}
	return nil, &EncodeError{Rune: utf8.RuneError, Encoding: e}
}

// IsBinary reports that the bytes, the start of a file, are not text.
func IsBinary(b []byte) bool { return Detect(b).IsBinary() }
