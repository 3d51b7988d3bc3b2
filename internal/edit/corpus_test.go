package edit_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolyard/toolyard/internal/edit"
)

type corpusFile struct {
	Text *string `json:"text"`
	B64  string  `json:"b64"`
}

func (c corpusFile) bytes(t *testing.T) []byte {
	t.Helper()
	if c.Text != nil {
		return []byte(*c.Text)
	}
	b, err := base64.StdEncoding.DecodeString(c.B64)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type corpusRow struct {
	ID    string                `json:"id"`
	Input map[string]corpusFile `json:"input"`
	Edit  struct {
		Old        string `json:"old"`
		New        string `json:"new"`
		ReplaceAll bool   `json:"replace_all"`
	} `json:"edit"`
	Expect struct {
		OK    bool                  `json:"ok"`
		Files map[string]corpusFile `json:"files"`
	} `json:"expect"`
	ExpectSafe *struct {
		OK bool `json:"ok"`
	} `json:"expect_safe"`
	ExpectAlt map[string]corpusFile `json:"expect_alt"`
}

// againstCorpus names the rows that end otherwise than the corpus expects, all
// of them refused, and the sentence of the specification that wins.
func againstCorpus() map[string]string {
	const levels = "Match: exact; then, each only if it is unique: line endings, trailing blanks, Unicode punctuation, indentation"
	return map[string]string{
		"aider/test_replace_part_with_missing_leading_whitespace_including_blank_line": levels,
		"gemini/regex_intraline_ws":     levels,
		"gemini/no_extra_newline_regex": levels,
	}
}

func TestCorpus(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "str_replace.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	correct, refused, damaged := 0, 0, 0
	for lines.Scan() {
		var row corpusRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.ID, func(t *testing.T) {
			switch outcome, got, want := runRow(t, row); outcome {
			case "correct":
				correct++
				if why := againstCorpus()[row.ID]; why != "" {
					t.Errorf("ends as expected, though listed as refused because of %q", why)
				}
			case "refused":
				refused++
				if againstCorpus()[row.ID] == "" {
					t.Errorf("refused: %s", got)
				}
			default:
				damaged++
				t.Errorf("damaged: got %q, want %q", got, want)
			}
		})
	}
	t.Logf("correct %d, refused %d, damaged %d", correct, refused, damaged)
}

func runRow(t *testing.T, row corpusRow) (outcome, got, want string) {
	fx := newFixture(t, edit.Config{})
	name := "FILE"
	for file, content := range row.Input {
		name = file
		fx.write(file, string(content.bytes(t)))
		fx.see(file)
	}
	result, err := fx.engine.Apply(t.Context(), fx.origin, fx.path(name), edit.Replacement{Old: row.Edit.Old, New: row.Edit.New, All: row.Edit.ReplaceAll})
	if err != nil {
		for file, content := range row.Input {
			if got := fx.read(file); got != string(content.bytes(t)) {
				return "damaged", got, string(content.bytes(t))
			}
		}
		if !row.Expect.OK || row.ExpectSafe != nil && !row.ExpectSafe.OK {
			return "correct", "", ""
		}
		return "refused", err.Error(), ""
	}
	got = fx.read(name)
	if edit.Sum([]byte(got)) != result.Hash {
		t.Errorf("the result's hash is %s, the file's %s", result.Hash, edit.Sum([]byte(got)))
	}
	if !row.Expect.OK {
		return "damaged", got, "a refusal"
	}
	want = string(row.Expect.Files[name].bytes(t))
	if got == want {
		return "correct", got, want
	}
	if alt, ok := row.ExpectAlt[name]; ok && got == string(alt.bytes(t)) {
		return "correct", got, want
	}
	return "damaged", got, want
}
