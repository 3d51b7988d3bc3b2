package text

import (
	"bytes"
	"encoding/binary"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gogs/chardet"
)

// Detect finds the encoding of b, which is a whole file or at least its first
// [Window] bytes. Text that is valid UTF-8 is UTF-8; a file with NUL bytes that
// is not UTF-16 is [Binary]. The answer depends on b alone and is the same on
// every run.
func Detect(b []byte) Encoding {
	switch {
	case bytes.HasPrefix(b, []byte{0xef, 0xbb, 0xbf}):
		return Encoding{Name: UTF8, BOM: true}
	case bytes.HasPrefix(b, []byte{0xff, 0xfe, 0, 0}), bytes.HasPrefix(b, []byte{0, 0, 0xfe, 0xff}):
		return Encoding{Name: Binary} // UTF-32
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}):
		return Encoding{Name: UTF16LE, BOM: true}
	case bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return Encoding{Name: UTF16BE, BOM: true}
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return Encoding{Name: zeros(b[:min(len(b), Window)])}
	}
	good, bad, first := countUTF8(b)
	switch {
	case bad == 0 || good >= 2*bad:
		// A few broken characters in UTF-8 do not make it something else.
		if controls(b[:min(len(b), Window)])*10 > 3*min(len(b), Window) {
			return Encoding{Name: Binary}
		}
		return Encoding{Name: UTF8}
	}
	// Judge around the first byte that is not UTF-8, from the start of its line:
	// the head of a file is often a licence in plain ASCII.
	start := 0
	if len(b) > Window {
		start = min(bytes.LastIndexByte(b[:first], '\n')+1, len(b)-1)
		if first-start > Window/2 {
			start = first
		}
	}
	return Encoding{Name: legacy(b[start:min(len(b), start+Window)])}
}

// countUTF8 counts the valid characters of more than one byte and the bytes
// that belong to none, and finds the first of those. A character that is cut at
// the end of a full window counts as neither.
func countUTF8(b []byte) (good, bad, first int) {
	if utf8.Valid(b) {
		return 1, 0, 0
	}
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r != utf8.RuneError || size > 1 {
			good++
			i += size
			continue
		}
		if len(b) >= Window && len(b)-i < utf8.UTFMax && !utf8.FullRune(b[i:]) {
			break
		}
		if bad == 0 {
			first = i
		}
		bad++
		i++
	}
	return good, bad, first
}

// controls counts the bytes that no text has.
func controls(b []byte) int {
	n := 0
	for len(b) >= 8 {
		// Eight bytes at once: nearly all have nothing below a space and no DEL.
		if w := binary.LittleEndian.Uint64(b); below(w, ' ')|below(w^0x7f*ones, 1) == 0 {
			b = b[8:]
			continue
		}
		n += controlsOf(b[:8])
		b = b[8:]
	}
	return n + controlsOf(b)
}

// ones has a 1 in each byte.
const ones = 0x0101010101010101

// below is not zero if a byte of w is less than n, which is at most 128.
func below(w uint64, n byte) uint64 { return (w - uint64(n)*ones) &^ w & (0x80 * ones) }

func controlsOf(b []byte) int {
	n := 0
	for _, c := range b {
		if c < 0x20 && (c < '\a' || c > '\r') && c != 0x1b && c != 0x1a || c == 0x7f {
			n++
		}
	}
	return n
}

// zeros tells UTF-16 without a mark from binary, for bytes with a NUL.
func zeros(b []byte) string {
	if len(b)%2 != 0 && len(b) < Window || len(b) < 4 {
		return Binary
	}
	units := len(b) / 2
	best, most := Binary, units/50 // of every 50 characters one is ASCII
	for name, high := range map[string]int{UTF16LE: 1, UTF16BE: 0} {
		n, ok := 0, true
		decoded := make([]uint16, units)
		for i := range units {
			hi, lo := b[2*i+high], b[2*i+1-high]
			decoded[i] = uint16(hi)<<8 | uint16(lo)
			if hi == 0 {
				n++
			}
		}
		if len(b) >= Window && units > 0 && utf16.IsSurrogate(rune(decoded[units-1])) {
			decoded = decoded[:units-1]
		}
		strange := 0
		for _, r := range utf16.Decode(decoded) {
			switch {
			case r == 0 || r == utf8.RuneError || r < ' ' && (r < '\a' || r > '\r') && r != 0x1b:
				ok = false
			case !unicode.IsGraphic(r) && r >= 0x7f:
				strange++
			}
		}
		// Of two readings the one with more ASCII is it; both cannot have equally
		// many and be free of controls, but for texts of odd symbols.
		if ok && strange*20 <= units && n > most {
			best, most = name, n
		}
	}
	return best
}

// candidate is one legacy encoding and the characters that texts in it use
// most.
type candidate struct {
	name    string
	chardet string
	common  string
}

// candidates lists the encodings of more than one byte. To add one: its name, a
// case in codec, what chardet calls it, and what is common in its texts.
func candidates() []candidate {
	const marks = "、。，．：；？！（）「」『』“”‘’《》【】…—　・ー～"
	return []candidate{
		{GB18030, "GB18030", marks + "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实日军者意无力它与长把机十民第公此已工使情明性知全三又关点正业外将两高间由问很最重并物手应战向头文体政美相见被利什二等产或新己制身果加西斯月话合回特代内信表化老给世位次度门任常先海通教儿原东声提立及比员解水名真论处走义各入几口认条平系气题活尔更别打女变四神总何电数安少报才结反受目太量再感建务做接必场件计管期市直德资命山金指克许统区保至队形社便空决治展马科司五基眼书非则听白却界达光放强即像难且权思王象完设式色路记南品住告类求据程北边死张该交规万取拉格望觉术领共确传师观清今切院让识候带导争运您好世测试文件注释字符串函数返回值参数读写输入错误配置中文编码行号码打印用户"},
		{Big5, "Big5", marks + "的一是不了在人有我他這個們中來上大為和國地到以說時要就出會可也你對生能而子那得於著下自之年過發後作裡用道行所然家種事成方多經麼去法學如都同現當沒動面起看定天分還進好小部其些主樣理心她本前開但因只從想實日軍者意無力它與長把機十民第公此已工使情明性知全三又關點正業外將兩高間由問很最重並物手應戰向頭文體政美相見被利什二等產或新己制身果加西斯月話合回特代內信表化老給世位次度門任常先海通教兒原東聲提立及比員解水名真論處走義各入幾口認條平系氣題活爾更別打女變四神總何電數安少報才結反受目太量再感建務做接必場件計管期市直德資命山金指克許統區保至隊形社便空決治展馬科司五基眼書非則聽白卻界達光放強即像難且權思王象完設式色路記南品住告類求據程北邊死張該交規萬取拉格望覺術領共確傳師觀清今切院讓識候帶導爭運您好世測試文件註釋字符串函數返回值參數讀寫輸入錯誤配置繁體編碼行號碼列印用戶"},
		{ShiftJIS, "Shift_JIS", marks + "ぁあぃいぅうぇえぉおかがきぎくぐけげこごさざしじすずせぜそぞただちぢっつづてでとどなにぬねのはばぱひびぴふぶぷへべぺほぼぽまみむめもゃやゅゆょよらりるれろわをんァアィイゥウェエォオカガキギクグケゲコゴサザシジスズセゼソゾタダチヂッツヅテデトドナニヌネノハバパヒビピフブプヘベペホボポマミムメモャヤュユョヨラリルレロワヲンヴ日本語一人大年中会国出時分行生事自者上前下新見学間場業手的用入力値名定数文字列表示設定変更処理関数"},
		{EUCKR, "EUC-KR", "이다는의에가을를고하지은기한사도로인아나서어자그시리라정해대있들일수것안게만보전부장제주여소요상면구조우과와비무원성유오스신동공연선물세러람할모국진미되생화경마행내중개적용계관간실산않니말때방없관회바위거려했며발번치식및두저분의개년차데써르까배학영결단확현재양입트양호교건음더후본복표통심업외운각명민예매당금록순물량류료반변력속품습직책천파함합항혜활황희안녕하세요한글테스트파일문자열함수값설정오류출력입력"},
	}
}

// chars is what a legacy reading of some bytes looks like.
type chars struct {
	total, common int
	odd           int // private use, half-width katakana, unassigned
}

// sure is the confidence of chardet from which an alphabet is believed.
const sure = 40

// legacy chooses an encoding for bytes that are neither UTF-8 nor UTF-16.
func legacy(b []byte) string {
	if controls(b)*50 > len(b) {
		return Binary
	}
	confidence := map[string]int{}
	single := 0 // of the best encoding of one byte
	if results, err := chardet.NewTextDetector().DetectAll(b); err == nil {
		for _, r := range results {
			confidence[r.Charset] = max(confidence[r.Charset], r.Confidence)
			if strings.HasPrefix(r.Charset, "ISO-8859") || strings.HasPrefix(r.Charset, "windows") || r.Charset == "KOI8-R" {
				single = max(single, r.Confidence)
			}
		}
	}
	best, score := "", 0
	for _, c := range candidates() {
		seen, ok := c.read(b)
		if !ok || seen.odd*4 > seen.total {
			continue
		}
		// What is common in the language counts most: it is sure after a few
		// characters, where frequencies of bytes still guess.
		s := 200*seen.common/seen.total + confidence[c.chardet] - 100*seen.odd/seen.total
		if 4*seen.common < seen.total && (shortRuns(b) || single > sure && single >= confidence[c.chardet]) {
			continue // Cyrillic or Greek, or letters with accents, that happen to decode
		}
		if best == "" || s > score {
			best, score = c.name, s
		}
	}
	switch {
	case best != "":
		return best
	case windows(b):
		return Windows1252
	}
	return Latin1
}

// read decodes b as c and looks at the characters beyond ASCII. It is not ok if
// some bytes stand for nothing; a character cut at the end of b is forgiven in
// a full window.
func (c candidate) read(b []byte) (seen chars, ok bool) {
	out, err := Encoding{Name: c.name}.codec().NewDecoder().Bytes(b)
	if err != nil {
		return seen, false
	}
	out = bytes.TrimSuffix(out, []byte("\uFFFD"))
	if len(b) < Window && b[len(b)-1] >= 0x80 && len(out) > 0 && out[len(out)-1] < 0x80 {
		return seen, false // the last byte began a character that never came
	}
	for _, r := range string(out) {
		switch {
		case r < utf8.RuneSelf:
			continue
		case r == utf8.RuneError:
			return seen, false
		case strings.ContainsRune(c.common, r):
			seen.common++
		case unicode.Is(unicode.Co, r) || !unicode.IsGraphic(r) || r >= 0xff61 && r <= 0xff9f:
			seen.odd++
		}
		seen.total++
	}
	return seen, seen.total > 0
}

// shortRuns reports that bytes beyond ASCII mostly stand alone, as the accented
// letters of western languages do.
func shortRuns(b []byte) bool {
	short, long, run := 0, 0, 0
	for i := 0; i <= len(b); i++ {
		if i < len(b) && b[i] >= 0x80 {
			run++
			continue
		}
		switch {
		case run > 2:
			long++
		case run > 0:
			short++
		}
		run = 0
	}
	return short > long
}

// windows reports bytes that are letters in windows-1252 and control characters
// in Latin-1.
func windows(b []byte) bool {
	found := false
	for _, c := range b {
		switch {
		case c == 0x81 || c == 0x8d || c == 0x8f || c == 0x90 || c == 0x9d:
			return false
		case c >= 0x80 && c < 0xa0:
			found = true
		}
	}
	return found
}
