package files

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"

	"golang.org/x/image/draw"
	"golang.org/x/image/webp"

	"github.com/toolyard/toolyard/internal/edit"
	"github.com/toolyard/toolyard/tool"
)

// Bounds of images.
const (
	maxSide       = 2000     // pixels; a larger image is scaled down
	maxPixels     = 60 << 20 // an image of more is not decoded
	maxImageBytes = 64 << 20 // a file of more is only described
	maxImageSent  = 3 << 20  // bytes; an image of more is encoded anew as JPEG
	jpegQuality   = 85
)

// imageKind is the kind of image that a file begins like; "" if it is none.
func imageKind(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte("\x89PNG\r\n\x1a\n")):
		return "png"
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return "jpeg"
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return "gif"
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return "webp"
	}
	return ""
}

// codecs of the kinds: what reads the size, and what reads the picture.
func imageConfig(kind string, r io.Reader) (image.Config, error) {
	switch kind {
	case "png":
		return png.DecodeConfig(r)
	case "jpeg":
		return jpeg.DecodeConfig(r)
	case "gif":
		return gif.DecodeConfig(r)
	}
	return webp.DecodeConfig(r)
}

func imageDecode(kind string, r io.Reader) (image.Image, error) {
	switch kind {
	case "png":
		return png.Decode(r)
	case "jpeg":
		return jpeg.Decode(r)
	case "gif":
		return gif.Decode(r)
	}
	return webp.Decode(r)
}

// image gives a picture as image content.
func (s *source) image(ctx context.Context, kind string) (*reading, edit.Sight, error) {
	if s.info.Size() > maxImageBytes {
		return s.binary(ctx)
	}
	data, err := io.ReadAll(io.LimitReader(s.rest(ctx), maxImageBytes+1))
	if err != nil {
		return nil, edit.Sight{}, s.failed(err)
	}
	config, err := imageConfig(kind, bytes.NewReader(data))
	if err != nil || config.Width <= 0 || config.Height <= 0 {
		return nil, edit.Sight{}, tool.Errorf(tool.ExecutionError, "%s begins like a %s image but is damaged: %v", shown(s.path.Display), kind, err).
			WithHint("Make the image again, or look at the file with a program.")
	}
	r := &reading{out: readOut{Encoding: "binary", Hash: s.sum.Sum(), Kind: "image", Size: s.info.Size()}}
	about := fmt.Sprintf("%s: %s image, %d×%d pixels, %s bytes", shown(s.path.Display), strings.ToUpper(kind), config.Width, config.Height, thousands(s.info.Size()))
	if config.Width*config.Height > maxPixels || config.Width > maxPixels || config.Height > maxPixels {
		r.content = []tool.Content{textBlock(about + " (too large to show)")}
		return r, edit.Sight{Whole: true}, nil
	}
	sent, mime := data, "image/"+kind
	if max(config.Width, config.Height) > maxSide || len(data) > maxImageSent {
		if sent, mime, err = scaled(kind, data); err != nil {
			return nil, edit.Sight{}, tool.Errorf(tool.ExecutionError, "%s cannot be decoded: %v", shown(s.path.Display), err)
		}
		about += fmt.Sprintf(" (scaled down to at most %d pixels a side)", maxSide)
	}
	r.content = []tool.Content{textBlock(about), {Kind: tool.KindImage, Data: sent, MIME: mime, Name: s.path.Display}}
	return r, edit.Sight{Whole: true}, nil
}

// scaled decodes a picture, makes it fit and encodes it anew.
func scaled(kind string, data []byte) (out []byte, mime string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the decoder gave up: %v", p)
		}
	}()
	picture, err := imageDecode(kind, bytes.NewReader(data))
	if err != nil {
		return nil, "", err
	}
	if b := picture.Bounds(); max(b.Dx(), b.Dy()) > maxSide {
		f := float64(maxSide) / float64(max(b.Dx(), b.Dy()))
		small := image.NewRGBA(image.Rect(0, 0, max(1, int(float64(b.Dx())*f)), max(1, int(float64(b.Dy())*f))))
		draw.ApproxBiLinear.Scale(small, small.Bounds(), picture, b, draw.Src, nil)
		picture = small
	}
	var buf bytes.Buffer
	if kind != "jpeg" {
		if err := png.Encode(&buf, picture); err != nil {
			return nil, "", err
		}
		if buf.Len() <= maxImageSent {
			return buf.Bytes(), "image/png", nil
		}
		buf.Reset()
	}
	err = jpeg.Encode(&buf, picture, &jpeg.Options{Quality: jpegQuality})
	return buf.Bytes(), "image/jpeg", err
}

// magics are the beginnings of well-known binary files. To add one, add a line.
var magics = []struct{ prefix, name string }{
	{"\x7fELF", "ELF program or library"},
	{"MZ", "Windows program"},
	{"\xcf\xfa\xed\xfe", "Mach-O program or library"},
	{"\xca\xfe\xba\xbe", "Java class or Mach-O universal binary"},
	{"PK\x03\x04", "ZIP archive, or a format built on it"},
	{"PK\x05\x06", "empty ZIP archive"},
	{"\x1f\x8b", "gzip data"},
	{"BZh", "bzip2 data"},
	{"\xfd7zXZ\x00", "xz data"},
	{"\x28\xb5\x2f\xfd", "zstd data"},
	{"7z\xbc\xaf\x27\x1c", "7-zip archive"},
	{"Rar!\x1a\x07", "RAR archive"},
	{"!<arch>\n", "ar archive"},
	{"SQLite format 3\x00", "SQLite database"},
	{"\x00asm", "WebAssembly module"},
	{"\x00\x00\x01\x00", "Windows icon"},
	{"BM", "BMP image"},
	{"II*\x00", "TIFF image"},
	{"MM\x00*", "TIFF image"},
	{"\x89PNG", "PNG image"},
	{"\xff\xd8\xff", "JPEG image"},
	{"GIF8", "GIF image"},
	{"OggS", "Ogg media"},
	{"fLaC", "FLAC audio"},
	{"ID3", "MP3 audio"},
	{"\x1aE\xdf\xa3", "Matroska or WebM video"},
	{"\xd0\xcf\x11\xe0", "Microsoft Office document"},
	{"wOFF", "WOFF font"},
	{"wOF2", "WOFF2 font"},
	{"\x00\x01\x00\x00", "TrueType font"},
}

// binaryKind says what a binary file looks like.
func binaryKind(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.prefix)) {
			return m.name
		}
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return "tar archive"
	}
	if len(head) > 12 && string(head[4:8]) == "ftyp" {
		return "MP4 media"
	}
	if mime := http.DetectContentType(head); mime != "application/octet-stream" && !strings.HasPrefix(mime, "text/") {
		return mime
	}
	return "of unknown type"
}
