package watch

import (
	"bytes"
	"strings"
)

// blockJSON turns a document into JSON if it is written in the plain way of kubectl
// and of most hands: block mappings and sequences of words, integers and simple
// quoted strings. It reads such text about ten times as fast as a YAML reader, and
// a large folder is made of little else. For anything else it returns false and says
// nothing: whoever asked must use a YAML reader, which also has the error text. What
// it accepts means to the YAML reader the same; FuzzBlock holds it to that.
func blockJSON(body []byte) ([]byte, bool) {
	b := &block{rest: body, out: make([]byte, 0, len(body)+len(body)/4)}
	b.next()
	if !b.line || b.indent != 0 || !b.mapping(0, 0) || b.line || b.odd {
		return nil, false
	}
	return b.out, true
}

// maxBlockDepth and maxKey keep clear of limits that YAML readers have.
const maxBlockDepth, maxKey = 64, 128

// block reads a document line by line.
type block struct {
	rest []byte
	out  []byte
	// The present line: whether there is one, its indentation, and the text behind
	// that without blanks at the end.
	line   bool
	indent int
	text   []byte
	// odd: a line was met that is left to others.
	odd bool
	// keys are those of all mappings that are open, the innermost last.
	keys [][]byte
}

// next goes to the next line that has content.
func (b *block) next() {
	b.line = false
	for len(b.rest) > 0 && !b.odd {
		row := b.rest
		if i := bytes.IndexByte(row, '\n'); i >= 0 {
			row, b.rest = row[:i], b.rest[i+1:]
		} else {
			b.rest = nil
		}
		for _, c := range row {
			b.odd = b.odd || c < ' ' || c > '~'
		}
		row = bytes.TrimRight(row, " ")
		text := bytes.TrimLeft(row, " ")
		if len(text) == 0 || text[0] == '#' {
			continue
		}
		b.line, b.indent, b.text = !b.odd, len(row)-len(text), text
		return
	}
}

// mapping reads a mapping whose keys stand at indent, from the present line on.
func (b *block) mapping(indent, depth int) bool {
	if depth > maxBlockDepth {
		return false
	}
	first := len(b.keys)
	defer func() { b.keys = b.keys[:first] }()
	b.out = append(b.out, '{')
	for {
		key, value, ok := splitKey(b.text)
		if !ok || b.known(key, first) {
			return false
		}
		if len(b.keys) > first {
			b.out = append(b.out, ',')
		}
		b.keys = append(b.keys, key)
		b.out = append(append(append(b.out, '"'), key...), '"', ':')
		if !b.value(value, indent, depth) {
			return false
		}
		if !b.line || b.indent < indent {
			b.out = append(b.out, '}')
			return true
		}
		if b.indent > indent {
			return false
		}
	}
}

// known reports whether the innermost mapping has the key already.
func (b *block) known(key []byte, first int) bool {
	for _, k := range b.keys[first:] {
		if bytes.Equal(k, key) {
			return true
		}
	}
	return false
}

// value reads what belongs to a key at indent: the scalar on its line, or the lines
// that follow. A sequence may stand at the indentation of its key.
func (b *block) value(scalar []byte, indent, depth int) bool {
	b.next()
	deeper := b.line && b.indent > indent
	switch {
	case len(scalar) > 0:
		return b.scalar(scalar)
	case deeper && isItem(b.text), b.line && b.indent == indent && isItem(b.text):
		return b.sequence(b.indent, depth+1)
	case deeper:
		return b.mapping(b.indent, depth+1)
	}
	b.out = append(b.out, "null"...)
	return true
}

// sequence reads the items at indent, from the present line on.
func (b *block) sequence(indent, depth int) bool {
	b.out = append(b.out, '[')
	for n := 0; ; n++ {
		if n > 0 {
			b.out = append(b.out, ',')
		}
		item := bytes.TrimLeft(b.text[1:], " ")
		if len(item) == 0 || isItem(item) {
			return false
		}
		if _, _, ok := splitKey(item); ok {
			b.indent, b.text = indent+len(b.text)-len(item), item
			if !b.mapping(b.indent, depth+1) {
				return false
			}
		} else {
			b.next()
			if !b.scalar(item) {
				return false
			}
		}
		if !b.line || b.indent < indent || b.indent == indent && !isItem(b.text) {
			b.out = append(b.out, ']')
			return true
		}
		if b.indent > indent {
			return false
		}
	}
}

// isItem reports whether text begins an item of a sequence.
func isItem(text []byte) bool { return text[0] == '-' && (len(text) == 1 || text[1] == ' ') }

// splitKey takes the key off a line "key: value" or "key:". Only keys that begin
// with a letter and can be nothing but strings are known here.
func splitKey(text []byte) (key, value []byte, ok bool) {
	i := 0
	for i < len(text) && isWord(text[i]) && text[i] != ':' {
		i++
	}
	if i == 0 || i > maxKey || i == len(text) || text[i] != ':' || !isLetter(text[0]) || isSpecial(text[:i]) {
		return nil, nil, false
	}
	if i+1 < len(text) && text[i+1] != ' ' {
		return nil, nil, false
	}
	return text[:i], bytes.TrimLeft(text[i+1:], " "), true
}

// scalar writes one scalar, if it is one that means the same to everybody.
func (b *block) scalar(s []byte) bool {
	switch text := string(s); {
	case text == "true", text == "false", text == "{}", text == "[]", isInteger(s):
		b.out = append(b.out, s...)
		return true
	case s[0] == '"' || s[0] == '\'':
		last := len(s) - 1
		if last == 0 || s[last] != s[0] || bytes.ContainsAny(s[1:last], `"'\`) {
			return false
		}
		s = s[1:last]
	case !isPlain(s):
		return false
	}
	b.out = append(append(append(b.out, '"'), s...), '"')
	return true
}

// isInteger accepts decimal integers without sign, leading zeros or doubt.
func isInteger(s []byte) bool {
	for _, c := range s {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(s) == 1 || s[0] != '0' && len(s) < 16
}

// isPlain accepts words and addresses that no YAML reader takes for a number, a
// truth value, a time or the key of a mapping.
func isPlain(s []byte) bool {
	for _, c := range s {
		if !isWord(c) {
			return false
		}
	}
	if s[len(s)-1] == ':' {
		return false
	}
	if isLetter(s[0]) {
		return !isSpecial(s)
	}
	// An IPv4 address or range has dots, an IPv6 one two colons in a row.
	return s[0] >= '0' && s[0] <= '9' && (bytes.Contains(s, []byte("::")) ||
		bytes.Count(s, []byte(".")) == 3 && len(bytes.Trim(s, "0123456789./")) == 0)
}

// isWord accepts the characters of names, addresses and ranges.
func isWord(c byte) bool {
	return isLetter(c) || c >= '0' && c <= '9' || strings.IndexByte("_./:-", c) >= 0
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isSpecial finds the words that YAML 1.1 takes for something else than a string.
func isSpecial(s []byte) bool {
	if len(s) > 5 {
		return false
	}
	switch strings.ToLower(string(s)) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return true
	}
	return false
}
