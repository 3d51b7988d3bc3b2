package policy

import (
	"slices"
	"strings"
)

// hazards lists, for a program, the arguments that make it run another program
// or overwrite a file behind the back of a wildcard: "tar *" is not meant to
// cover --checkpoint-action. An allow rule has to spell such a word out. To add
// one: a row here and one in the tests' table of bypasses.
type hazards struct {
	short string   // letters, also inside a cluster like -xvf
	long  []string // --names, also cut short as GNU programs take them
	exact []string // words as they are, also with =value behind: -exec, SHELL
	first []string // subcommands: the first word that is no option
	parts []string // text anywhere in a word
	stdin bool     // with no operand it runs what it reads
	// script: the first operand is a script, and what follows belongs to it.
	script bool
}

var programs = map[string]hazards{
	"gtar":      {short: "IF", long: []string{"checkpoint-action", "to-command", "use-compress-program", "info-script", "new-volume-script", "rsh-command", "rmt-command"}},
	"tar":       {short: "IF", long: []string{"checkpoint-action", "to-command", "use-compress-program", "info-script", "new-volume-script", "rsh-command", "rmt-command"}},
	"bsdtar":    {long: []string{"use-compress-program"}},
	"zip":       {short: "T", long: []string{"unzip-command"}, exact: []string{"-TT"}},
	"rsync":     {short: "e", long: []string{"rsh", "rsync-path", "daemon", "config"}},
	"scp":       {short: "SoFD"},
	"sftp":      {short: "SobFD"},
	"sort":      {short: "oT", long: []string{"compress-program", "output"}},
	"split":     {long: []string{"filter"}},
	"man":       {short: "PHC", long: []string{"pager", "html", "browser", "config-file"}},
	"less":      {short: "oOkK", parts: []string{"+"}, long: []string{"log-file", "LOG-FILE", "lesskey-file", "lesskey-src"}},
	"more":      {parts: []string{"+"}},
	"vi":        editor,
	"vim":       editor,
	"nvim":      editor,
	"view":      editor,
	"ex":        editor,
	"vimdiff":   editor,
	"emacs":     {parts: []string{"-"}},
	"ed":        {stdin: true},
	"awk":       awk,
	"gawk":      awk,
	"mawk":      awk,
	"nawk":      awk,
	"make":      makeLike,
	"gmake":     makeLike,
	"ninja":     {short: "tf"},
	"cmake":     {short: "EP"},
	"python":    {short: "cm", stdin: true, script: true, exact: []string{"-"}},
	"perl":      {script: true, short: "eEnpiMmIdxF", stdin: true, exact: []string{"-"}},
	"ruby":      {script: true, short: "enpirIxF", stdin: true, exact: []string{"-"}},
	"node":      {script: true, short: "eprC", long: []string{"eval", "print", "require", "import", "loader", "experimental-loader", "inspect", "inspect-brk", "env-file"}, stdin: true, exact: []string{"-"}},
	"deno":      {first: []string{"eval", "repl", "run", "task"}},
	"bun":       {short: "ep", first: []string{"x", "eval", "repl", "exec"}},
	"php":       {script: true, short: "rBREadz", stdin: true},
	"lua":       {script: true, short: "eli", stdin: true, exact: []string{"-"}},
	"Rscript":   {script: true, short: "e"},
	"R":         {short: "e"},
	"julia":     {script: true, short: "eEL"},
	"tclsh":     {stdin: true},
	"ghc":       {short: "e"},
	"hg":        {long: []string{"config"}, parts: []string{"alias.", "hooks.", "extensions."}},
	"svn":       {long: []string{"config-option", "editor-cmd", "diff-cmd", "diff3-cmd"}},
	"go":        {exact: []string{"-exec", "--exec", "-toolexec", "--toolexec", "-vettool", "--vettool", "-overlay", "--overlay"}, parts: []string{"extld", "-toolexec="}},
	"cargo":     {long: []string{"config", "manifest-path"}},
	"npm":       {first: []string{"exec", "x", "explore", "config", "set", "edit"}, long: []string{"script-shell", "node-options", "prefix", "git", "shell", "editor", "viewer", "userconfig", "globalconfig"}},
	"pnpm":      {first: []string{"exec", "dlx", "config", "env"}, long: []string{"script-shell", "node-options", "dir", "shell"}, short: "C"},
	"yarn":      {first: []string{"exec", "dlx", "node", "config"}, long: []string{"cwd", "script-shell"}},
	"pip":       {long: []string{"index-url", "extra-index-url", "config-settings", "editable"}, short: "e"},
	"docker":    container,
	"podman":    container,
	"nerdctl":   container,
	"kubectl":   {first: []string{"exec", "run", "debug", "attach", "cp", "edit", "plugin", "proxy"}},
	"curl":      {short: "oOKTDc", long: []string{"output", "remote-name", "config", "upload-file", "dump-header", "cookie-jar", "output-dir", "libcurl", "stderr", "trace", "trace-ascii", "engine", "etag-save", "hsts", "alt-svc"}},
	"wget":      {short: "OoaieP", long: []string{"output-document", "output-file", "append-output", "execute", "use-askpass", "post-file", "body-file", "input-file", "config", "directory-prefix"}},
	"openssl":   {exact: []string{"-engine", "-out", "-provider"}, first: []string{"engine"}},
	"tcpdump":   {short: "zw"},
	"nmap":      {long: []string{"script", "interactive"}, exact: []string{"-oN", "-oX", "-oG", "-oA"}},
	"gcc":       compiler,
	"g++":       compiler,
	"cc":        compiler,
	"c++":       compiler,
	"clang":     compiler,
	"clang++":   compiler,
	"ip":        {first: []string{"netns", "vrf"}, short: "b", long: []string{"batch"}},
	"mysql":     {short: "e", long: []string{"execute", "pager"}, parts: []string{`\!`}},
	"psql":      {short: "cf", long: []string{"command", "file"}, parts: []string{`\!`, "PROGRAM"}},
	"sqlite3":   {parts: []string{".shell", ".system", ".import", ".output", ".once", ".load", "edit("}, stdin: true, long: []string{"init", "cmd"}, exact: []string{"-cmd", "-init"}},
	"pdflatex":  latex,
	"xelatex":   latex,
	"lualatex":  latex,
	"fd":        {short: "xX", long: []string{"exec", "exec-batch"}},
	"fdfind":    {short: "xX", long: []string{"exec", "exec-batch"}},
	"rg":        {long: []string{"pre", "hostname-bin", "search-zip"}, short: "z"},
	"ag":        {long: []string{"pager"}},
	"fzf":       {long: []string{"preview", "bind", "with-shell", "listen", "preview-window"}},
	"yq":        {short: "i", long: []string{"inplace"}},
	"systemctl": {first: []string{"edit", "set-environment", "import-environment"}},
	"apt":       {short: "oc", long: []string{"option", "config-file"}},
	"apt-get":   {short: "oc", long: []string{"option", "config-file"}},
	"dpkg":      {long: []string{"pre-invoke", "post-invoke", "path-include"}},
	"pytest":    {short: "pc", long: []string{"rootdir", "confcutdir", "config-file", "override-ini"}},
	"eslint":    {short: "cf", long: []string{"config", "rulesdir", "resolve-plugins-relative-to", "format", "output-file", "parser", "plugin"}},
	"prettier":  {long: []string{"plugin", "config"}},
	"dd":        {exact: []string{"of"}},
	"enable":    {short: "fnd"},
	"hash":      {short: "p"},
	"bind":      {short: "xf"},
	"complete":  {short: "CF"},
	"compgen":   {short: "CFW"},
	"mapfile":   {short: "C"},
	"readarray": {short: "C"},
	"fc":        {short: "se"},
	"shopt":     {short: "su"},
	"set":       {short: "k", exact: []string{"keyword", "posix", "+o"}},
	"history":   {short: "rans"},
	"date":      {short: "s", long: []string{"set"}},
	"tig":       {parts: []string{"+"}},
	"gpg":       {long: []string{"exec-path", "photo-viewer", "agent-program", "output"}, short: "o"},
	"lldb":      {short: "oOsSk", long: []string{"one-line", "source"}},
}

var (
	editor    = hazards{parts: []string{"+"}, short: "cSsueEwWtdTiq", long: []string{"cmd", "remote-expr", "remote-send", "startuptime"}}
	awk       = hazards{short: "filEelopW", long: []string{"file", "exec", "include", "load", "source", "dump-variables", "profile", "pretty-print"}, parts: []string{"system", "|", "getline", ">", "@", "ENVIRON"}}
	makeLike  = hazards{short: "fEI", long: []string{"eval", "file", "makefile", "include-dir"}}
	container = hazards{first: []string{"exec", "run", "create", "compose", "buildx", "build", "cp", "plugin", "machine", "import", "load"}, short: "H", long: []string{"host", "config", "context"}}
	compiler  = hazards{exact: []string{"-wrapper", "-specs", "--specs", "-fplugin", "-Xlinker", "-fuse-ld", "-dumpdir", "-load"}, parts: []string{"-Wl,", "-fplugin", "-B", "@"}}
	latex     = hazards{exact: []string{"-shell-escape", "--shell-escape", "-enable-write18", "--enable-write18"}, parts: []string{`\write18`, `\input|`}}
)

// findHazards notes the words of c that a rule must spell out.
func (c *command) findHazards(name string) {
	switch name {
	case "sed", "gsed":
		c.sedHazards()
		return
	case "git":
		c.gitHazards()
		return
	}
	h, ok := programs[name]
	if !ok {
		if trimmed := strings.TrimRight(name, "0123456789."); trimmed == "python" || trimmed == "pypy" {
			h, ok = programs["python"]
		} else if trimmed == "pip" || trimmed == "perl" || trimmed == "ruby" || trimmed == "lua" || trimmed == "php" || trimmed == "node" {
			h, ok = programs[trimmed]
		}
	}
	if !ok {
		return
	}
	operand, literal := 0, false
	for i, w := range c.words[1:] {
		i++
		text := w.text
		if operand == 0 && !strings.HasPrefix(text, "-") {
			operand = i
			if slices.Contains(h.first, text) {
				c.hazard(i, name+" "+text+" can run another program")
			}
		}
		if h.script && operand > 0 && text != "-" && plainOptions(c.words[1:operand]) {
			break
		}
		switch {
		case literal:
		case text == "--":
			literal = true
		case h.option(text):
			c.hazard(i, "the argument "+text+" of "+name+" can run another program or overwrite a file")
		case name == "make" || name == "gmake":
			if variable, value, ok := strings.Cut(text, "="); ok && (!harmlessVariable(strings.TrimRight(variable, ":+?")) || strings.ContainsAny(value, "$`") || strings.HasSuffix(variable, "!")) {
				c.hazard(i, "make takes "+variable+" from its arguments")
			}
		}
	}
	if name == "tar" && len(c.words) > 1 && strings.ContainsAny(c.words[1].text, "IF") && !strings.HasPrefix(c.words[1].text, "-") {
		c.hazard(1, "the options "+c.words[1].text+" of tar can run another program")
	}
	c.lateSubcommand(h, name)
	if name == "ed" {
		operand = 0 // it reads its commands even so
	}
	if h.stdin && operand == 0 && !informative(c.words) {
		c.hazard(len(c.words), name+" runs what it reads")
		c.runner = true
	}
}

// plainOptions reports whether all words are options that take no value, so that
// what follows is the script. If not, it may be the value of an option.
func plainOptions(words []word) bool {
	return !slices.ContainsFunc(words, func(w word) bool {
		return !slices.Contains([]string{"-u", "-B", "-O", "-OO", "-s", "-q", "-w", "--"}, w.text)
	})
}

// lateSubcommand finds a subcommand behind an option with a value, as in
// "git -C dir config": any word that is one counts, if no other subcommand that
// is harmless stands right behind the name.
func (c *command) lateSubcommand(h hazards, name string) {
	if len(h.first) == 0 || len(c.words) < 3 || !strings.HasPrefix(c.words[1].text, "-") {
		return
	}
	for i, w := range c.words {
		if i > 1 && slices.Contains(h.first, w.text) {
			c.hazard(i, name+" "+w.text+" can run another program")
		}
	}
}

// informative reports whether the command only tells about itself.
func informative(words []word) bool {
	return len(words) == 2 && slices.Contains([]string{"--version", "-V", "-v", "--help", "-h"}, words[1].text)
}

// gitOptions are those options of git's subcommands that run programs or write
// files; "" is for every subcommand, and what stands before it.
var gitOptions = map[string]hazards{
	"": {long: []string{"exec", "extcmd", "upload-pack", "receive-pack", "open-files-in-pager", "config-env", "exec-path", "git-dir", "work-tree",
		"output", "ext-diff", "textconv", "template", "smtp-server", "sendmail-cmd", "to-cmd", "cc-cmd"}, parts: []string{"ext::"}},
	"before":  {short: "c"},
	"clone":   {short: "cu", long: []string{"config"}},
	"rebase":  {short: "x"},
	"grep":    {short: "O"},
	"archive": {short: "o"},
	"init":    {long: []string{"separate-git-dir"}},
}

// gitPrograms are subcommands that run programs named in their arguments or
// change what git runs later.
var gitPrograms = []string{"config", "submodule", "filter-branch", "difftool", "mergetool", "send-email", "daemon", "hook", "instaweb", "credential",
	"web--browse", "bisect", "fast-import", "cvsserver", "shell", "upload-pack", "receive-pack", "upload-archive", "remote-ext", "p4", "svn", "maintenance", "for-each-repo"}

// gitFlags are the options before the subcommand whose value, if they have one,
// is known to be harmless. Behind any other it is not known where the
// subcommand stands.
var gitFlags = []string{"-C", "--namespace", "-p", "-P", "--paginate", "--no-pager", "--bare", "--no-replace-objects", "--no-lazy-fetch", "--no-optional-locks",
	"--no-advice", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs", "--icase-pathspecs", "--version", "--help", "-h", "-v"}

func (c *command) gitHazards() {
	sub := "before"
	every := gitOptions[""]
	for i := 1; i < len(c.words); i++ {
		text := c.words[i].text
		if sub == "before" && !strings.HasPrefix(text, "-") {
			sub = text
			if slices.Contains(gitPrograms, text) {
				c.hazard(i, "git "+text+" can run another program")
			}
			continue
		}
		if text == "--" {
			return
		}
		own := gitOptions[sub]
		bare, _, hasValue := strings.Cut(text, "=")
		strange := sub == "before" && !hasValue && !slices.Contains(gitFlags, bare)
		if every.option(text) || own.option(text) || strange {
			c.hazard(i, "the argument "+text+" of git can run another program or overwrite a file")
		}
		if sub == "before" && (text == "-C" || text == "--namespace") {
			i++
		}
	}
}

// option reports whether one argument is hazardous.
func (h *hazards) option(text string) bool {
	bare, _, _ := strings.Cut(text, "=")
	if slices.Contains(h.exact, bare) || slices.Contains(h.exact, text) {
		return true
	}
	for _, part := range h.parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	if long, ok := strings.CutPrefix(bare, "--"); ok {
		return long != "" && slices.ContainsFunc(h.long, func(name string) bool { return strings.HasPrefix(name, long) })
	}
	return len(text) > 1 && text[0] == '-' && strings.ContainsAny(text[1:], h.short) && h.short != ""
}

// sedHazards: only scripts of plain commands are covered by a wildcard, since
// e and w, alone or behind s///, run programs and write files.
func (c *command) sedHazards() {
	script := false
	for i, w := range c.words[1:] {
		i++
		switch {
		case strings.HasPrefix(w.text, "--"):
			long, _, _ := strings.Cut(w.text[2:], "=")
			if !slices.Contains([]string{"quiet", "silent", "regexp-extended", "help", "version", "posix", "null-data", "sandbox"}, long) {
				c.hazard(i, "the option "+w.text+" of sed")
			}
		case strings.HasPrefix(w.text, "-") && len(w.text) > 1:
			if strings.Trim(w.text[1:], "nErsuz") != "" {
				c.hazard(i, "the option "+w.text+" of sed")
				script = script || strings.ContainsAny(w.text, "ef")
			}
		case !script:
			script = true
			if !plainSed(w.text) {
				c.hazard(i, "the program of sed can run or write")
			}
		}
	}
}

// plainSed reports whether a sed script is made of p, d, q, = and s only, with
// no flag that runs or writes.
func plainSed(script string) bool {
	for each := range strings.SplitSeq(script, ";") {
		each = strings.TrimLeft(strings.TrimSpace(each), "0123456789,$+~! ")
		if strings.HasPrefix(each, "/") {
			end := strings.IndexByte(each[1:], '/')
			if end < 0 || strings.Contains(each[:end+1], `\`) {
				return false
			}
			each = strings.TrimLeft(each[end+2:], " I!")
		}
		switch {
		case each == "":
		case strings.Trim(each, "pdq=") == "":
		case each[0] == 's' && len(each) > 3 && strings.IndexByte(each, '\n') < 0:
			fields := strings.Split(each[2:], each[1:2])
			if len(fields) != 3 || strings.Trim(fields[2], "gpiI0123456789") != "" || strings.Contains(each, `\`+each[1:2]) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// plainText is the words with the global options left out that stand between a
// program and its subcommand, for rules that forbid the subcommand.
func plainText(c *command, words string) string {
	values, ok := globalOptions[c.name()]
	if !ok || len(c.words) < 3 || !strings.HasPrefix(c.words[1].text, "-") {
		return ""
	}
	i := 1
	for ; i < len(c.words) && strings.HasPrefix(c.words[i].text, "-"); i++ {
		if slices.Contains(values, c.words[i].text) {
			i++
		}
	}
	if i >= len(c.words) {
		return ""
	}
	parts := []string{c.name()}
	for _, w := range c.words[i:] {
		parts = append(parts, w.text)
	}
	return strings.Join(parts, string(rune(sep)))
}

// globalOptions: the options with a value that may stand before a subcommand.
var globalOptions = map[string][]string{
	"git":       {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--exec-path", "--super-prefix"},
	"docker":    {"-H", "--host", "--config", "-c", "--context", "-l", "--log-level"},
	"podman":    {"-c", "--connection", "--url", "--root"},
	"kubectl":   {"-n", "--namespace", "--context", "--kubeconfig", "-s", "--server", "--cluster", "--user"},
	"npm":       {"--prefix", "-w", "--workspace"},
	"pnpm":      {"-C", "--dir", "--filter", "-F"},
	"yarn":      {"--cwd"},
	"cargo":     {"--config", "-C", "-Z", "--color"},
	"go":        {"-C"},
	"make":      {"-C", "-f", "-j", "-I"},
	"systemctl": {"-H", "-M", "-t", "-p"},
}

// harmlessVariable reports whether a variable cannot change which program runs
// or what it runs: the well-known ones below, and names in lower case that no
// program is known to read.
func harmlessVariable(name string) bool {
	if slices.Contains(harmlessVariables, name) || strings.HasPrefix(name, "LC_") {
		return true
	}
	return name == strings.ToLower(name) && name != "_" && !strings.HasPrefix(name, "npm_") && !strings.HasSuffix(name, "_proxy") &&
		name != "path" && name != "cdpath" && name != "fpath" && name != "histchars" && name != "auto_resume" && name != "manpath"
}

var harmlessVariables = []string{
	"CI", "DEBUG", "LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "LINES",
	"NODE_ENV", "RAILS_ENV", "APP_ENV", "GOOS", "GOARCH", "GOARM", "GOAMD64", "CGO_ENABLED", "GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GOTRACEBACK", "RUST_BACKTRACE", "RUST_LOG",
	"PORT", "HOST", "VERBOSE", "QUIET", "DEBIAN_FRONTEND", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "PYTHONIOENCODING",
	"GIT_TERMINAL_PROMPT", "OMP_NUM_THREADS", "SOURCE_DATE_EPOCH", "N", "I", "J", "X", "Y",
}
