package toolindex

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWord is the longest word that is kept, in bytes. What is longer is data.
const maxWord = 40

// kind is what a word of a text is.
type kind int

const (
	plainWord kind = iota
	wholeWord      // of several that capitals tell apart: "GitHub", after "git" and "hub"
	hanRun         // characters without blanks between them
)

// words splits text into words in lower case, each as it is written: at
// everything but letters and digits, and where capitals begin a new one. Runs of
// Han come whole, to be taken apart by [hanTerms] or by the table of synonyms.
func words(text string, each func(word string, k kind)) {
	var word, whole []rune
	parts := 0
	part := func(k kind) {
		if len(word) == 0 {
			return
		}
		if w := string(word); len(w) <= maxWord || k == hanRun {
			each(w, k)
		}
		parts++
		whole = append(whole, word...)
		word = word[:0]
	}
	flush := func(han bool) {
		k := plainWord
		if han {
			k = hanRun
		}
		part(k)
		if w := string(whole); parts > 1 && !han && len(w) <= maxWord {
			each(w, wholeWord)
		}
		whole, parts = whole[:0], 0
	}
	runes := []rune(text)
	inHan := false
	for i, c := range runes {
		han := unicode.Is(unicode.Han, c)
		if han != inHan {
			flush(inHan)
			inHan = han
		}
		switch {
		case han:
			word = append(word, c)
		case unicode.IsLetter(c) || unicode.IsDigit(c):
			if unicode.IsUpper(c) && begins(runes, i) {
				part(plainWord)
			}
			word = append(word, unicode.ToLower(c))
		case c == '\'' || c == '’': // don't, user's: one word
		default:
			flush(inHan)
		}
	}
	flush(inHan)
}

// begins reports whether the capital at i begins a word: after a small letter, or
// as the last of several before a small one ("APIKey", but not "PDFs").
func begins(runes []rune, i int) bool {
	if i == 0 {
		return false
	}
	before := runes[i-1]
	if unicode.IsLower(before) {
		return true
	}
	if !unicode.IsUpper(before) || i+1 >= len(runes) || !unicode.IsLower(runes[i+1]) {
		return false
	}
	plural := runes[i+1] == 's' && (i+2 == len(runes) || !unicode.IsLetter(runes[i+2]))
	return !plural
}

// hanTerms gives the pairs and the single characters of a run of Han.
func hanTerms(run string, each func(term string)) {
	before := -1
	for i, c := range run {
		next := i + utf8.RuneLen(c)
		each(run[i:next])
		if before >= 0 {
			each(run[before:next])
		}
		before = i
	}
}

// stem takes the common endings off an English word, so that its forms meet:
// creates, created, creating, creation. It need not give a word.
func stem(w string) string {
	if len(w) < 3 || w[0] >= utf8.RuneSelf || strings.ContainsAny(w, "0123456789") {
		return w
	}
	switch w {
	case "ids", "prs", "mrs", "dbs", "vms", "oss":
		return w[:2]
	case "settings", "setting":
		return "setting"
	case "embed", "embeds":
		return "embed"
	case "running", "ran":
		return "run"
	case "written", "wrote":
		return "writ"
	case "sent":
		return "send"
	case "found":
		return "find"
	case "built":
		return "build"
	case "men", "people", "persons":
		return "person"
	case "bigger", "larger", "biggest", "largest":
		return "larg"
	case "smaller", "smallest":
		return "small"
	case "faster", "fastest":
		return "fast"
	case "slower", "slowest", "slowly":
		return "slow"
	case "bought", "buying":
		return "buy"
	case "paid", "pays":
		return "pay"
	case "spent":
		return "spend"
	case "drew", "drawn":
		return "draw"
	case "chose", "chosen":
		return "choos"
	case "drove", "driven":
		return "driv"
	case "forgot", "forgotten":
		return "forget"
	case "spoke", "spoken":
		return "speak"
	case "thought":
		return "think"
	case "children":
		return "child"
	}
	w = american(singular(w))
	switch {
	case strings.HasSuffix(w, "ied") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "eed"):
	case strings.HasSuffix(w, "ing") && len(w) > 5 && hasVowel(w[:len(w)-3]):
		w = undouble(w[:len(w)-3])
	case strings.HasSuffix(w, "ed") && len(w) > 4 && hasVowel(w[:len(w)-2]):
		w = undouble(w[:len(w)-2])
	case strings.HasSuffix(w, "ion") && len(w) > 6:
		w = w[:len(w)-3]
	}
	if strings.HasSuffix(w, "e") && len(w) > 3 && !strings.HasSuffix(w, "ee") {
		w = w[:len(w)-1]
	}
	return w
}

func singular(w string) string {
	switch {
	case len(w) < 4 || !strings.HasSuffix(w, "s"):
		return w
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "uses"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	}
	return w[:len(w)-1]
}

// american is a word in its American spelling, by its commonest differences.
func american(w string) string {
	switch {
	case len(w) > 6 && strings.HasSuffix(w, "ise"):
		return w[:len(w)-3] + "ize"
	case len(w) > 7 && (strings.HasSuffix(w, "ising") || strings.HasSuffix(w, "ised")):
		i := strings.LastIndex(w, "is")
		return w[:i] + "iz" + w[i+2:]
	case len(w) > 8 && strings.HasSuffix(w, "isation"):
		return w[:len(w)-7] + "ization"
	case len(w) > 5 && strings.HasSuffix(w, "our"):
		return w[:len(w)-3] + "or"
	}
	return w
}

func hasVowel(w string) bool { return strings.ContainsAny(w, "aeiouy") }

// undouble takes one of two equal consonants at the end: "runn", but not "pull".
func undouble(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("aeioulsz", rune(w[n-1])) {
		return w[:n-1]
	}
	return w
}

// isStop reports whether a word says nothing about a tool.
func isStop(word string) bool {
	switch word {
	case "a", "an", "the", "this", "that", "these", "those", "it", "its", "they", "them", "their", "there", "here", "he", "she", "his", "her", "him",
		"we", "us", "our", "i", "me", "my", "mine", "you", "your", "yours", "of", "to", "in", "on", "at", "by", "for", "with", "from", "into", "onto",
		"as", "and", "or", "but", "nor", "so", "if", "then", "than", "else", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did",
		"done", "doing", "has", "have", "had", "having", "will", "would", "shall", "should", "can", "could", "may", "might", "must", "not", "no", "dont",
		"cant", "how", "what", "which", "when", "where", "who", "whom", "whose", "why", "whether", "want", "wants", "wanted", "need", "needs", "needed",
		"please", "let", "lets", "like", "some", "any", "all", "所有", "全部", "each", "every", "other", "another", "such", "only", "just", "also", "very", "too", "about", "via",
		"per", "using", "use", "uses", "used", "etc", "eg", "ie", "e", "g", "s", "t", "ll", "ve", "re", "now", "still", "able", "give", "gives", "given",
		"help", "helps", "一", "个", "的", "了", "吗", "呢", "吧", "我", "你", "他", "她", "它", "们", "在", "是", "和", "与", "或", "把", "被", "将", "给", "对", "从", "到", "为",
		"让", "请", "要", "想", "能", "会", "可", "以", "就", "都", "也", "很", "这", "那", "有", "中", "里", "上", "下":
		return true
	}
	return false
}

// isFaint reports whether a word says little about a tool: what people say around
// what they want. Tools say such words seldom, so that their rareness deceives.
func isFaint(word string) bool {
	if strings.Trim(word, "0123456789") == "" {
		return true
	}
	switch word {
	case "something", "somebody", "someone", "anything", "anyone", "anybody", "everything", "everybody", "everyone", "nothing", "somewhere", "thing", "things",
		"stuff", "bit", "piece", "kind", "sort", "way", "ways", "lot", "lots", "one", "ones", "two", "three", "four", "five", "few", "both", "either", "first", "second",
		"make", "makes", "made", "making", "take", "takes", "took", "taken", "taking", "put", "puts", "putting", "get", "gets", "got", "getting", "go", "goes", "going", "went",
		"come", "comes", "came", "keep", "keeps", "tell", "tells", "told", "know", "knows", "knew", "say", "says", "said", "try", "tries", "trying", "happen", "happens",
		"happened", "look", "looks", "looking", "show", "shows", "see", "seen", "figure", "own", "same", "already", "again", "really", "quickly", "easily", "maybe", "much", "many", "more",
		"most", "less", "well", "good", "great", "sure", "out", "up", "off", "over", "down", "around", "back", "away", "through", "between", "within", "without",
		"during", "before", "after", "until", "since", "because", "while", "yet", "ever", "never", "always", "today", "tonight", "tomorrow", "yesterday", "monday",
		"tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "week", "month", "year", "next", "big", "small", "hard", "right", "exactly", "actually",
		"certain", "given", "particular", "various", "different", "specific",
		"什么", "怎么", "哪里", "哪儿", "哪些", "哪个", "一下", "一个", "一些", "某个", "这个", "那个", "现在", "今天", "明天", "帮忙", "帮我", "如何", "是否", "有没有", "需要", "可以", "我的",
		"进行", "自己", "多少", "没有", "还有", "已经", "一段", "东西":
		return true
	}
	return false
}
