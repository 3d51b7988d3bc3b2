package artifact

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// kinds are the types that the content alone does not tell, by extension. To
// add one: a row here; the content must be text, or the extension decides
// nothing.
var kinds = map[string]struct{ mime, category string }{
	".md": {"text/markdown", "text"}, ".txt": {"text/plain", "text"}, ".log": {"text/plain", "text"}, ".rst": {"text/plain", "text"},
	".diff": {"text/x-diff", "text"}, ".patch": {"text/x-diff", "text"},
	".html": {"text/html", "document"}, ".htm": {"text/html", "document"}, ".tex": {"text/x-tex", "document"},
	".json": {"application/json", "data"}, ".jsonl": {"application/jsonl", "data"}, ".csv": {"text/csv", "data"}, ".tsv": {"text/tab-separated-values", "data"},
	".xml": {"application/xml", "data"}, ".yaml": {"application/yaml", "data"}, ".yml": {"application/yaml", "data"}, ".toml": {"application/toml", "data"},
	".ini": {"text/plain", "data"}, ".ipynb": {"application/x-ipynb+json", "document"}, ".svg": {"image/svg+xml", "image"},
	".go": {"text/x-go", "code"}, ".py": {"text/x-python", "code"}, ".js": {"text/javascript", "code"}, ".mjs": {"text/javascript", "code"},
	".ts": {"text/x-typescript", "code"}, ".tsx": {"text/x-typescript", "code"}, ".jsx": {"text/javascript", "code"}, ".css": {"text/css", "code"},
	".c": {"text/x-c", "code"}, ".h": {"text/x-c", "code"}, ".cc": {"text/x-c++", "code"}, ".cpp": {"text/x-c++", "code"}, ".hpp": {"text/x-c++", "code"},
	".rs": {"text/x-rust", "code"}, ".java": {"text/x-java", "code"}, ".kt": {"text/x-kotlin", "code"}, ".rb": {"text/x-ruby", "code"},
	".php": {"text/x-php", "code"}, ".sh": {"text/x-shellscript", "code"}, ".sql": {"text/x-sql", "code"}, ".lua": {"text/x-lua", "code"},
	".cs": {"text/x-csharp", "code"}, ".swift": {"text/x-swift", "code"}, ".vue": {"text/x-vue", "code"},
}

// office are the documents that are ZIP files inside.
var office = map[string]string{
	".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
	".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
	".odt":  "application/vnd.oasis.opendocument.text",
	".ods":  "application/vnd.oasis.opendocument.spreadsheet",
	".epub": "application/epub+zip",
}

// mimeOf tells the type of data that begins with head. The content decides; the
// name only refines text and ZIP.
func mimeOf(name string, head []byte) string {
	ext := strings.ToLower(filepath.Ext(name))
	found := http.DetectContentType(head)
	switch {
	case found == "application/zip" && office[ext] != "":
		return office[ext]
	case found == "application/octet-stream" && bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return "application/x-xz"
	case found == "application/octet-stream" && bytes.HasPrefix(head, []byte("\x28\xb5\x2f\xfd")):
		return "application/zstd"
	case found == "application/octet-stream" && bytes.HasPrefix(head, []byte("BZh")):
		return "application/x-bzip2"
	case len(head) > 262 && string(head[257:262]) == "ustar":
		return "application/x-tar"
	case !strings.HasPrefix(found, "text/"):
		return found
	}
	if kind, ok := kinds[ext]; ok {
		return kind.mime
	}
	trimmed := bytes.TrimSpace(head)
	if bytes.HasPrefix(trimmed, []byte("<svg")) {
		return "image/svg+xml"
	}
	if len(head) < sniffed && len(trimmed) > 0 && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid(trimmed) {
		return "application/json"
	}
	if bytes.HasPrefix(trimmed, []byte("#!")) {
		return "text/x-shellscript"
	}
	return strings.Replace(found, "; charset=", ";charset=", 1)
}

// category is image, video, audio, document, data, code, text, archive or file.
func category(name, mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	family, sub, _ := strings.Cut(mime, "/")
	switch family {
	case "image", "video", "audio":
		return family
	}
	if kind, ok := kinds[strings.ToLower(filepath.Ext(name))]; ok && kind.mime == mime {
		return kind.category
	}
	switch {
	case mime == "application/pdf", mime == "application/postscript", mime == "text/html", mime == "application/epub+zip",
		strings.Contains(sub, "officedocument"), strings.Contains(sub, "opendocument"):
		return "document"
	case mime == "application/json", mime == "text/xml", mime == "application/wasm", mime == "text/csv":
		return "data"
	case mime == "text/x-shellscript":
		return "code"
	case family == "text":
		return "text"
	}
	for _, packed := range []string{"zip", "gzip", "x-tar", "x-xz", "zstd", "x-bzip2", "x-rar-compressed", "x-7z-compressed"} {
		if sub == packed || sub == "x-"+packed {
			return "archive"
		}
	}
	return "file"
}

// IsText reports whether head looks like text: no zero byte and valid UTF-8 but
// for a rune that is cut off at the end.
func IsText(head []byte) bool {
	if bytes.IndexByte(head, 0) >= 0 {
		return false
	}
	for i := 0; i < utf8.UTFMax && len(head) > 0; i++ {
		if utf8.Valid(head) {
			return true
		}
		head = head[:len(head)-1]
	}
	return len(head) == 0
}
