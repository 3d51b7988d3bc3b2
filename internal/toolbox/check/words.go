package check

import (
	"fmt"
	"regexp"
	"sync"
)

// words is one text in each language.
type words [2]string

const (
	en = iota
	zh
)

// language is the index of a language's name; what is not Chinese is English.
func language(name string) int {
	if len(name) >= 2 && (name[:2] == "zh" || name[:2] == "ZH") {
		return zh
	}
	return en
}

// in is the text, in English where it has no other.
func (w words) in(lang int) string {
	if w[lang] == "" {
		return w[en]
	}
	return w[lang]
}

// spoken fills a text. Arguments that are words themselves take the language.
func spoken(format string, lang int, args []any) string {
	if format == "" || len(args) == 0 {
		return format
	}
	filled := make([]any, len(args))
	for i, a := range args {
		if w, ok := a.(words); ok {
			a = w.in(lang)
		}
		filled[i] = a
	}
	return fmt.Sprintf(format, filled...)
}

// reason says why a rule was not checked.
type reason int

const (
	unloaded reason = iota
	absent
	unanswered
	noTrial
	noBase
	noValue
	noManifest
	noFile
	noFunction
	notAsked
	outOfTime
	noSchema
)

func (r reason) words() words {
	return map[reason]words{
		unloaded:   {"the module does not load", "模块无法加载"},
		absent:     {"the module does not have the method", "模块没有该方法"},
		unanswered: {"the method gave no answer that can be read", "该方法没有返回可读取的结果"},
		noTrial:    {"the tool cannot be run here", "此处无法运行工具"},
		noBase:     {"no valid parameters could be made", "无法生成有效参数"},
		noValue:    {"the trial run gave no value", "试运行没有返回值"},
		noManifest: {"there is no package.json", "没有 package.json"},
		noFile:     {"there is no such file", "没有该文件"},
		noFunction: {"it is not known here", "此处无法得知"},
		notAsked:   {"the tool has nothing of the kind", "工具没有此类内容"},
		outOfTime:  {"the time for all trials had passed", "全部试运行的时间已用完"},
		noSchema:   {"there is no parameters schema", "没有参数模式"},
	}[r]
}

// lazily gives an expression that is compiled when it is first used: the start of
// the program, which rarely validates anything, does not wait for it.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
