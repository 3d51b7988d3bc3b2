package text_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/text"
)

const (
	simplified  = "// 读取配置文件\nfunc main() {\n\treturn \"你好，世界\"\n}\n"
	traditional = "# 讀取設定檔案，並且顯示結果\nprint(\"這是一個測試，請問您要什麼？\")\n"
	japanese    = "// 設定ファイルを読み込む\nvar 名前 = \"こんにちは世界\";\n"
	korean      = "// 설정 파일을 읽어서 결과를 출력한다\nlet 이름 = \"안녕하세요 세계\";\n"
	french      = "// Le café est fermé à Noël, où êtes-vous ?\nString garçon = \"né\";\n"
)

func encode(t *testing.T, name, s string) []byte {
	t.Helper()
	raw, err := text.Encoding{Name: name}.Encode(s)
	if err != nil {
		t.Fatalf("encoding %q as %s: %v", s, name, err)
	}
	return raw
}

// TestDetectSeesEveryControl puts so many control characters into a text that it
// is no text any more, at each place of a word.
func TestDetectSeesEveryControl(t *testing.T) {
	for c := 1; c < 128; c++ {
		control := c < 0x20 && (c < '\a' || c > '\r') && c != 0x1a && c != 0x1b || c == 0x7f
		for lead := range 9 {
			b := append(bytes.Repeat([]byte{'a'}, lead), bytes.Repeat([]byte{byte(c), 'b'}, 40)...)
			if got := text.Detect(b); got.IsBinary() != control {
				t.Errorf("%d letters, then 40 times %#02x: got %s, want binary %t", lead, c, got, control)
			}
		}
	}
}

func TestDetect(t *testing.T) {
	long := strings.Repeat("/* plain licence text */\n", 4000)
	tests := []struct {
		name, encoding, text string
		want                 string
	}{
		{"empty", text.UTF8, "", text.UTF8},
		{"ascii", text.UTF8, "hello\n", text.UTF8},
		{"utf-8", text.UTF8, simplified, text.UTF8},
		{"utf-8 escape sequences", text.UTF8, "\x1b[31mred\x1b[0m\n", text.UTF8},
		{"utf-16le", text.UTF16LE, "hello world\r\n", text.UTF16LE},
		{"utf-16be", text.UTF16BE, "hello world\r\n", text.UTF16BE},
		{"utf-16le chinese", text.UTF16LE, simplified, text.UTF16LE},
		{"utf-16be emoji", text.UTF16BE, "a 😀 b\n", text.UTF16BE},
		{"gbk", text.GB18030, simplified, text.GB18030},
		{"gbk one word", text.GB18030, "中文", text.GB18030},
		{"gbk after a long licence", text.GB18030, long + simplified, text.GB18030},
		{"gbk rare words", text.GB18030, strings.Repeat("填充 text\n", 2000), text.GB18030},
		{"gbk names", text.GB18030, "龘龙 饕餮 魑魅魍魉 麒麟\n", text.GB18030},
		{"big5", text.Big5, traditional, text.Big5},
		{"big5 short", text.Big5, "這是中文\n", text.Big5},
		{"shift_jis", text.ShiftJIS, japanese, text.ShiftJIS},
		{"shift_jis short", text.ShiftJIS, "こんにちは\n", text.ShiftJIS},
		{"euc-kr", text.EUCKR, korean, text.EUCKR},
		{"euc-kr short", text.EUCKR, "한글 테스트\n", text.EUCKR},
		{"latin-1 french", text.Latin1, french, text.Latin1},
		{"latin-1 one letter", text.Latin1, "café", text.Latin1},
		{"latin-1 one letter inside", text.Latin1, "naïve\n", text.Latin1},
		{"latin-1 german", text.Latin1, "Über große Häuser läßt sich streiten: Äpfel, Öl, Füße.\n", text.Latin1},
		{"latin-1 spanish", text.Latin1, "¿Qué señor? ¡El niño!\n", text.Latin1},
		{"latin-1 portuguese", text.Latin1, "São Paulo é uma região; informações, ações e corações.\n", text.Latin1},
		{"latin-1 finnish", text.Latin1, "Hääyöaie ja määräänsä päättänyt\n", text.Latin1},
		{"latin-1 degree", text.Latin1, "temp = 20 °C ± 1\n", text.Latin1},
		{"latin-1 copyright", text.Latin1, "// Copyright © 2020 Müller\nint x;\n", text.Latin1},
		{"windows quotes", text.Windows1252, "It’s “quoted” – 5 €\n", text.Windows1252},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			raw := encode(t, test.encoding, test.text)
			got := text.Detect(raw)
			if got.Name != test.want {
				t.Fatalf("Detect(% x…) = %s, want %s", raw[:min(len(raw), 40)], got, test.want)
			}
			if decoded := got.Decode(raw).UTF8; decoded != test.text {
				t.Errorf("decoded %q, want %q", decoded, test.text)
			}
			for range 5 {
				if again := text.Detect(raw); again != got {
					t.Fatalf("Detect is not the same every time: %s, then %s", got, again)
				}
			}
		})
	}
}

func TestDetectMarksAndBinary(t *testing.T) {
	tests := []struct {
		name string
		raw  string
		want text.Encoding
	}{
		{"utf-8 mark", "\xef\xbb\xbfhi", text.Encoding{Name: text.UTF8, BOM: true}},
		{"utf-16le mark", "\xff\xfeh\x00", text.Encoding{Name: text.UTF16LE, BOM: true}},
		{"utf-16be mark", "\xfe\xff\x00h", text.Encoding{Name: text.UTF16BE, BOM: true}},
		{"utf-32", "\xff\xfe\x00\x00h\x00\x00\x00", text.Encoding{Name: text.Binary}},
		{"elf", "\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", text.Encoding{Name: text.Binary}},
		{"png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", text.Encoding{Name: text.Binary}},
		{"text with a NUL", "abc\x00def", text.Encoding{Name: text.Binary}},
		{"text with two NULs", "abcd\x00\x00efgh", text.Encoding{Name: text.Binary}},
		{"control characters", "\x01\x02\x03\x04\x05\x06\x07\x01", text.Encoding{Name: text.Binary}},
		{"utf-8 with one broken byte", "größer und \xff schöner und länger", text.Encoding{Name: text.UTF8}},
		{"utf-8 cut in a character", "größe schön 世\xe7\x95", text.Encoding{Name: text.UTF8}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := text.Detect([]byte(test.raw)); got != test.want {
				t.Errorf("Detect(%q) = %v, want %v", test.raw, got, test.want)
			}
			if got := text.IsBinary([]byte(test.raw)); got != test.want.IsBinary() {
				t.Errorf("IsBinary(%q) = %v", test.raw, got)
			}
		})
	}
}

func TestWindowCutInCharacter(t *testing.T) {
	for _, name := range []string{text.UTF8, text.GB18030, text.Big5, text.ShiftJIS, text.EUCKR, text.UTF16LE} {
		sample := map[string]string{text.Big5: traditional, text.ShiftJIS: japanese, text.EUCKR: korean}[name]
		if sample == "" {
			sample = simplified
		}
		whole := encode(t, name, strings.Repeat(sample, 3000))
		for cut := range 4 {
			if got := text.Detect(whole[:text.Window+cut]); got.Name != name {
				t.Errorf("%s cut after %d bytes: got %s", name, text.Window+cut, got)
			}
		}
	}
}

func TestRawOffsets(t *testing.T) {
	sample := strings.Repeat(simplified, 300)
	for _, e := range []text.Encoding{
		{Name: text.UTF8}, {Name: text.UTF8, BOM: true}, {Name: text.UTF16LE, BOM: true}, {Name: text.UTF16BE}, {Name: text.GB18030},
	} {
		raw := append(bytes.Clone(e.Mark()), encode(t, e.Name, sample)...)
		decoded := e.Decode(raw)
		if decoded.UTF8 != sample {
			t.Fatalf("%v: decoded text differs", e)
		}
		for at := range sample {
			if at%7 != 0 && at > 200 {
				continue
			}
			want := len(e.Mark()) + len(encode(t, e.Name, sample[:at]))
			if got := decoded.Raw(at); got != want {
				t.Fatalf("%v: Raw(%d) = %d, want %d", e, at, got, want)
			}
		}
		if got := decoded.Raw(len(sample)); got != len(raw) {
			t.Errorf("%v: Raw(end) = %d, want %d", e, got, len(raw))
		}
	}
}

func TestEncodeRefusesWhatIsLacking(t *testing.T) {
	for name, r := range map[string]rune{
		text.Latin1: '世', text.Windows1252: '世', text.ShiftJIS: '한', text.EUCKR: '😀', text.Big5: '한',
	} {
		_, err := text.Encoding{Name: name}.Encode("ok " + string(r))
		var lacking *text.EncodeError
		if !errors.As(err, &lacking) || lacking.Rune != r {
			t.Errorf("%s: Encode(%q) = %v, want an EncodeError of %q", name, r, err, r)
		}
	}
}

func TestReader(t *testing.T) {
	for _, e := range []text.Encoding{
		{Name: text.UTF8, BOM: true}, {Name: text.UTF8}, {Name: text.UTF16LE, BOM: true}, {Name: text.GB18030},
	} {
		raw := append(bytes.Clone(e.Mark()), encode(t, e.Name, simplified)...)
		got, err := io.ReadAll(e.Reader(bytes.NewReader(raw)))
		if err != nil || string(got) != simplified {
			t.Errorf("%v: read %q, %v", e, got, err)
		}
	}
	short, err := io.ReadAll(text.Encoding{Name: text.UTF8, BOM: true}.Reader(strings.NewReader("a")))
	if err != nil || string(short) != "a" {
		t.Errorf("a file shorter than its mark: %q, %v", short, err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("caf\xe9"), 0)
	f.Add([]byte("\xff\xfeh\x00i\x00"), 3)
	f.Add([]byte("\xc4\xe3\xba\xc3 x"), 2)
	f.Fuzz(func(t *testing.T, raw []byte, at int) {
		e := text.Detect(raw)
		decoded := e.Decode(raw)
		if at < 0 || at > len(decoded.UTF8) {
			at = len(decoded.UTF8)
		}
		offset := decoded.Raw(at)
		if offset < 0 || offset > len(raw) {
			t.Fatalf("%v: Raw(%d) = %d of %d bytes", e, at, offset, len(raw))
		}
		last := 0
		for i := range decoded.UTF8 {
			if offset := decoded.Raw(i); offset < last {
				t.Fatalf("%v: Raw goes back from %d to %d", e, last, offset)
			} else {
				last = offset
			}
		}
	})
}
