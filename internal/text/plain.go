package text

// Plain is the ASCII character that models write for a typographic one; 0 if
// there is none.
func Plain(r rune) rune {
	switch r {
	case '‘', '’', '‚', '‛', '′', '＇':
		return '\''
	case '“', '”', '„', '‟', '″', '＂':
		return '"'
	case '‐', '‑', '‒', '–', '—', '―', '−', '－':
		return '-'
	case '\u00a0', '\u2002', '\u2003', '\u2004', '\u2005', '\u2006', '\u2007', '\u2008', '\u2009', '\u200a', '\u202f', '\u205f', '\u3000':
		return ' '
	case '，':
		return ','
	case '；':
		return ';'
	case '：':
		return ':'
	case '（':
		return '('
	case '）':
		return ')'
	case '！':
		return '!'
	case '？':
		return '?'
	}
	return 0
}
