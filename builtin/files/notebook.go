package files

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/internal/text"
)

// Bounds of a notebook.
const (
	maxNotebook   = 64 << 20 // bytes; a larger file is read as text
	maxCellOutput = 4000     // bytes of one output that are shown
)

// notebookFile is what counts of a Jupyter notebook (nbformat 4).
type notebookFile struct {
	Cells    *[]notebookCell `json:"cells"`
	Metadata struct {
		Kernel struct {
			Language string `json:"language"`
		} `json:"kernelspec"`
		Language struct {
			Name string `json:"name"`
		} `json:"language_info"`
	} `json:"metadata"`
}

type notebookCell struct {
	ID      string           `json:"id"`
	Type    string           `json:"cell_type"`
	Source  notebookText     `json:"source"`
	Outputs []notebookOutput `json:"outputs"`
	Count   *int             `json:"execution_count"`
}

type notebookOutput struct {
	Type  string                     `json:"output_type"`
	Name  string                     `json:"name"`
	Text  notebookText               `json:"text"`
	Data  map[string]json.RawMessage `json:"data"`
	Error string                     `json:"ename"`
	Value string                     `json:"evalue"`
}

// notebookText is a string, or a list of strings that make one.
type notebookText string

// UnmarshalJSON takes both forms.
func (t *notebookText) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*t = notebookText(one)
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return err
	}
	*t = notebookText(strings.Join(many, ""))
	return nil
}

// notebook shows a notebook as cells. What is not one gives nil and is read as
// text.
func (s *source) notebook(ctx context.Context, in readIn, limit int) (*reading, edit.Sight, error) {
	var data bytes.Buffer
	if _, err := io.Copy(&data, io.LimitReader(s.rest(ctx), maxNotebook+1)); err != nil {
		return nil, edit.Sight{}, s.failed(err)
	}
	cells, ok := notebookCells(data.Bytes())
	if !ok {
		s.head = data.Bytes()
		return nil, edit.Sight{}, nil
	}
	w := &window{skip: in.Offset, want: in.Limit, limit: max(limit-noteRoom, limit/2)}
	if err := w.from(strings.NewReader(cells), int64(len(cells))); err != nil {
		return nil, edit.Sight{}, err
	}
	r, sight, err := s.windowed(w, in, text.UTF8, "notebook")
	return r, sight, err
}

// notebookCells writes the cells of a notebook as text; ok is false if data is
// no notebook.
func notebookCells(data []byte) (cells string, ok bool) {
	var n notebookFile
	if json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), &n) != nil || n.Cells == nil {
		return "", false
	}
	language := n.Metadata.Language.Name
	if language == "" {
		language = n.Metadata.Kernel.Language
	}
	var b strings.Builder
	fmt.Fprintf(&b, "notebook of %s\n", plural(int64(len(*n.Cells)), "cell"))
	for i, c := range *n.Cells {
		fmt.Fprintf(&b, "\n[cell %d", i)
		if c.ID != "" {
			b.WriteString(" id=" + shown(c.ID))
		}
		b.WriteString(" " + shown(c.Type))
		if c.Type == "code" && language != "" {
			b.WriteString(" " + shown(language))
		}
		if c.Count != nil {
			fmt.Fprintf(&b, " run %d", *c.Count)
		}
		b.WriteString("]\n")
		writeBlock(&b, string(c.Source))
		for _, o := range c.Outputs {
			o.write(&b)
		}
	}
	return b.String(), true
}

func (o *notebookOutput) write(b *strings.Builder) {
	body, about := string(o.Text), o.Type
	switch {
	case o.Type == "error":
		body = o.Error + ": " + o.Value
	case o.Type == "stream":
		about = o.Name
	default:
		var plain notebookText
		if raw, ok := o.Data["text/plain"]; ok && json.Unmarshal(raw, &plain) == nil {
			body = string(plain)
		}
		for kind := range o.Data {
			if strings.HasPrefix(kind, "image/") {
				about += ", with an image"
				break
			}
		}
	}
	fmt.Fprintf(b, "[output %s]\n", shown(about))
	if len(body) > maxCellOutput {
		body = strings.ToValidUTF8(body[:maxCellOutput], "") + fmt.Sprintf("\n… [%s more bytes]", thousands(int64(len(body)-maxCellOutput)))
	}
	writeBlock(b, body)
}

func writeBlock(b *strings.Builder, s string) {
	if s = strings.TrimSuffix(s, "\n"); s != "" {
		b.WriteString(s + "\n")
	}
}
