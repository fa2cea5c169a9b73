package watch

import (
	"bytes"
	"encoding/json"
	"errors"
	"hash/maphash"
	"io"
)

// text is one document of a file as it stands there.
type text struct {
	// number counts documents with content from 1; line is where body begins.
	number, line int
	body         []byte
	// err says why body is no document: the file cannot be cut from here on.
	err error
}

// hash names the content of a text within this process.
func (t text) hash(seed maphash.Seed) uint64 { return maphash.Bytes(seed, t.body) }

// splitYAML cuts data at document markers. Documents without content (blank lines,
// comments, directives) are left out and not counted.
func splitYAML(data []byte) []text {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	var out []text
	start, startLine, content := 0, 1, false
	flush := func(end int) {
		if content {
			out = append(out, text{number: len(out) + 1, line: startLine, body: data[start:end]})
		}
		content = false
	}
	for pos, line := 0, 1; pos < len(data); line++ {
		next := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			next = pos + i + 1
		}
		row := data[pos:next]
		switch {
		case isMarker(row, "---") && isBlank(row[3:]):
			flush(pos)
			start, startLine = next, line+1
		case isMarker(row, "---"): // content follows the marker on its line
			flush(pos)
			start, startLine, content = pos, line, true
		case isMarker(row, "..."):
			flush(pos)
			start, startLine = next, line+1
		case !content:
			content = !isBlank(row) && row[0] != '%'
		}
		pos = next
	}
	flush(len(data))
	return out
}

// isMarker reports whether row begins with the marker and then ends or has a blank.
func isMarker(row []byte, marker string) bool {
	return len(row) >= 3 && string(row[:3]) == marker && (len(row) == 3 || bytes.IndexByte([]byte(" \t\r\n"), row[3]) >= 0)
}

// isBlank reports whether row has nothing but blanks and a comment.
func isBlank(row []byte) bool {
	for _, c := range row {
		switch c {
		case ' ', '\t', '\r', '\n':
		case '#':
			return true
		default:
			return false
		}
	}
	return true
}

// splitJSON cuts a file of JSON values that follow one another. Behind the first
// syntax error nothing can be told apart, so the rest is one text with the error.
func splitJSON(data []byte) []text {
	var out []text
	decoder := json.NewDecoder(bytes.NewReader(data))
	line, counted := 1, 0
	for {
		var raw json.RawMessage
		err := decoder.Decode(&raw)
		if err == io.EOF {
			return out
		}
		end := int(decoder.InputOffset())
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			end = min(len(data), int(syntax.Offset))
		} else if err != nil {
			end = len(data) // the file ends within a value
		}
		begin := end - len(raw)
		if err != nil {
			begin = end
		}
		line += bytes.Count(data[counted:begin], []byte("\n"))
		counted = begin
		out = append(out, text{number: len(out) + 1, line: line, body: raw, err: err})
		if err != nil {
			return out
		}
	}
}
