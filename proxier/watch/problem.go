package watch

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"kube-ipvs-proxy/proxier/plan"
)

// Problem is something that was read and cannot be used: where it stands, which
// object it belongs to, and why. All the rest of the object is used.
type Problem struct {
	// File is the name in the folder; empty for objects of the API server and for
	// the folder itself.
	File string
	// Document counts the documents of the file from 1, Line its lines. Both are
	// zero when the object says enough.
	Document, Line int
	// Object is, for example, "Service default/web"; empty when nobody knows.
	Object string
	// Part of the object, for example "externalIPs 127.0.0.1"; may be empty.
	Part string
	// Reason says what is wrong and what happens now.
	Reason string
}

// String returns, for example,
// "web.yaml, document 2, line 14: Service default/web: port http: port 70000 is not in 1-65535".
func (p Problem) String() string {
	place := p.File
	if p.Document > 0 {
		place += fmt.Sprintf(", document %d", p.Document)
	}
	if p.Line > 0 {
		place += fmt.Sprintf(", line %d", p.Line)
	}
	var parts []string
	for _, s := range []string{place, p.Object, p.Part, p.Reason} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Service names the Service that the problem belongs to; false when it belongs to
// something else.
func (p Problem) Service() (plan.ServiceName, bool) {
	text, ok := strings.CutPrefix(p.Object, "Service ")
	namespace, name, whole := strings.Cut(text, "/")
	return plan.ServiceName{Namespace: namespace, Name: name}, ok && whole
}

// compare orders problems by place and object.
func (p Problem) compare(o Problem) int {
	return cmp.Or(cmp.Compare(p.File, o.File), cmp.Compare(p.Document, o.Document),
		cmp.Compare(p.Line, o.Line), cmp.Compare(p.Object, o.Object),
		cmp.Compare(p.Part, o.Part), cmp.Compare(p.Reason, o.Reason))
}

// maxProblems is how many problems of one object are told; a broken object with
// thousands of endpoints must not fill the log.
const maxProblems = 20

// reports collects the problems of one object.
type reports struct {
	object string
	list   []Problem
	more   int
}

// add reports part of the object; part may be empty.
func (r *reports) add(part, format string, args ...any) {
	if len(r.list) == maxProblems {
		r.more++
		return
	}
	r.list = append(r.list, Problem{Object: r.object, Part: part, Reason: fmt.Sprintf(format, args...)})
}

// of names the object of what was reported.
func (r *reports) of(object string) {
	r.object = object
	for i := range r.list {
		r.list[i].Object = object
	}
}

// problems returns what was reported.
func (r *reports) problems() []Problem {
	if r.more == 0 {
		return r.list
	}
	return append(r.list, Problem{Object: r.object, Reason: fmt.Sprintf("%d more problems of this object", r.more)})
}

// clip shortens text of the outside, which may be of any length, and makes control
// characters visible.
func clip(s string) string {
	const most = 200
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	if strings.IndexFunc(s, unprintable) < 0 {
		return s
	}
	var out strings.Builder
	for _, r := range s {
		if unprintable(r) {
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// unprintable finds what would spoil a line of a log; U+FFFD stands for bytes that
// are no text.
func unprintable(r rune) bool { return !strconv.IsPrint(r) || r == utf8.RuneError }
