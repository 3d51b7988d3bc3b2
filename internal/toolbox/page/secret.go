package page

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/toolyard/toolyard/internal/toolbox/definition"
)

// dots stand for a value that is not shown. Their number says nothing.
const dots = "••••••"

// secretWords are words of a name whose value is not shown; a word that ends
// with one of secretEnds is one too.
var (
	secretWords = []string{"password", "passwd", "pwd", "pass", "passphrase", "passcode", "pin", "secret", "secrets", "token", "tokens", "key", "keys",
		"credential", "credentials", "auth", "authorization", "authentication", "cookie", "cookies", "bearer", "salt", "private", "signature", "dsn", "otp", "totp", "jwt", "sas"}
	secretEnds = []string{"password", "passwd", "passphrase", "secret", "token", "key", "credential", "credentials", "cookie"}
	noSecrets  = []string{"monkey", "turkey", "hotkey", "whiskey", "donkey", "hockey", "jockey", "keyword"}
)

// saysSecret is what a description says of a value that is not shown.
var saysSecret = regexp.MustCompile(`(?i)\b(pass(word|phrase|code)|api[ _-]?keys?|(secret|private|access|signing) ?(key|token)|credentials?|auth(entication|orization)? token|bearer)\b|密码|密碼|密钥|密鑰|口令|令牌|凭证|凭据`)

// Secret reports whether a variable's name says that its value is not to be
// shown.
func Secret(name string) bool {
	for _, word := range words(name) {
		if slices.Contains(noSecrets, word) {
			continue
		}
		if slices.Contains(secretWords, word) || slices.ContainsFunc(secretEnds, func(end string) bool { return strings.HasSuffix(word, end) }) {
			return true
		}
	}
	return false
}

// words splits a name at signs and at capitals within it.
func words(name string) []string {
	var b strings.Builder
	before := ' '
	for _, r := range name {
		if unicode.IsUpper(r) && unicode.IsLower(before) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
		before = r
	}
	return strings.FieldsFunc(strings.ToLower(b.String()), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// secretProperty reports whether a property's name or schema says that its value
// is not to be shown.
func secretProperty(name string, s schema) bool {
	if s.WriteOnly || strings.EqualFold(s.Format, "password") || strings.EqualFold(s.Format, "secret") {
		return true
	}
	if len(s.Types) > 0 && !s.is("string") && !s.is("array") && !s.is("object") {
		return false // MAX_TOKENS: 4000
	}
	return Secret(name) || saysSecret.MatchString(s.Description) || saysSecret.MatchString(s.Title)
}

// Secrets lists which of the variables in values are not to be shown, because
// their name or the tool's schema says so, by the alphabet.
func Secrets(d *definition.Definition, values map[string]string) []string {
	s := readSchema(d.Environment)
	var names []string
	for name := range values {
		of := schema{}
		if p := s.property(name); p != nil {
			of = p.schema
		}
		if secretProperty(name, of) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// userinfo is a password within an address.
var userinfo = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/@:]*:)[^\s/@]*@`)

// masker shows values. What is secret in one is not shown in another either.
type masker struct {
	secret  map[string]bool
	replace *strings.Replacer
}

func newMasker(s schema, values map[string]string) masker {
	const shortest = 6 // a shorter secret occurs in other words by chance
	m := masker{secret: map[string]bool{}}
	var found []string
	for name, value := range values {
		of := schema{}
		if p := s.property(name); p != nil {
			of = p.schema
		}
		if m.secret[name] = secretProperty(name, of); m.secret[name] && len(value) >= shortest {
			found = append(found, value)
		}
	}
	slices.SortFunc(found, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, value := range found {
		pairs = append(pairs, value, dots)
	}
	m.replace = strings.NewReplacer(pairs...)
	return m
}

// show is a value as a page has it.
func (m masker) show(name, value string) string {
	if m.secret[name] {
		return dots
	}
	return userinfo.ReplaceAllString(m.replace.Replace(value), "${1}"+dots+"@")
}
