package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
)

// Size of the drawing in pixels, and the room around the plot.
const (
	width, height            = 860, 520
	left, right, top, bottom = 80, 190, 60, 60
)

// colors of the subjects; they can be told apart in grey, too, by their marks.
var colors = map[string]string{
	Ours: "#0b6e4f", OursRoute: "#4fb286", IPTables: "#c0392b", IPVS: "#d68910", NFTables: "#2e5fa3", Floor: "#777777",
}

// point is a number of Services and a time.
type point struct{ x, y float64 }

// chart is a drawing with logarithmic axes.
type chart struct {
	minX, maxX, minY, maxY float64
	text                   strings.Builder
}

// Chart draws a metric in seconds against the number of Services, for the sizes with
// so many endpoints, both axes logarithmic, as SVG.
func (r *Report) Chart(w io.Writer, key string, endpoints int) error {
	lines := map[string][]point{}
	c := &chart{minX: math.Inf(1), minY: math.Inf(1)}
	for _, size := range r.sizes() {
		if size.Endpoints != endpoints {
			continue
		}
		for _, subject := range r.subjects() {
			if y, ok := r.median(size, subject, key); ok && y > 0 {
				p := point{float64(size.Services), y}
				lines[subject] = append(lines[subject], p)
				c.minX, c.maxX = min(c.minX, p.x), max(c.maxX, p.x)
				c.minY, c.maxY = min(c.minY, p.y), max(c.maxY, p.y)
			}
		}
	}
	if len(lines) == 0 {
		return fmt.Errorf("no figures of %s with %d endpoints to draw", key, endpoints)
	}
	c.round()
	c.axes(r.title(key), endpoints)
	c.all(r.subjects(), lines)
	fmt.Fprintf(&c.text, `<text x="%d" y="%d" class="small">%s; %s</text>`+"\n", left, height-8, html.EscapeString(r.Date), html.EscapeString(r.Machine))
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">
<style>.small{font-size:11px;fill:#666}.grid{stroke:#ddd}.value{font-size:10px}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
%s</svg>
`, width, height, c.text.String())
	return err
}

func (r *Report) title(key string) string {
	for _, m := range Metrics {
		if m.Key == key {
			return m.Title
		}
	}
	return key
}

// round widens the axes to whole powers of ten, the one of Services a little.
func (c *chart) round() {
	c.minX, c.maxX = c.minX/1.3, c.maxX*1.3
	c.minY = math.Pow(10, math.Floor(math.Log10(c.minY)))
	c.maxY = math.Pow(10, math.Ceil(math.Log10(c.maxY)))
	if c.minY == c.maxY {
		c.maxY *= 10
	}
}

func (c *chart) x(v float64) float64 {
	return left + (math.Log(v)-math.Log(c.minX))/(math.Log(c.maxX)-math.Log(c.minX))*(width-left-right)
}

func (c *chart) y(v float64) float64 {
	return height - bottom - (math.Log(v)-math.Log(c.minY))/(math.Log(c.maxY)-math.Log(c.minY))*(height-top-bottom)
}

func (c *chart) axes(title string, endpoints int) {
	fmt.Fprintf(&c.text, `<text x="%d" y="26" font-size="17">%s</text>`+"\n", left, html.EscapeString(title))
	fmt.Fprintf(&c.text, `<text x="%d" y="44" class="small">seconds, against the number of Services with %d endpoints each; both axes are logarithmic</text>`+"\n", left, endpoints)
	for v := c.minY; v <= c.maxY*1.0001; v *= 10 {
		y := c.y(v)
		fmt.Fprintf(&c.text, `<line class="grid" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%g s</text>`+"\n",
			left, y, width-right, y, left-8, y+4, math.Round(v*1e6)/1e6)
	}
	fmt.Fprintf(&c.text, `<line stroke="#333" x1="%d" y1="%d" x2="%d" y2="%d"/>`+"\n", left, height-bottom, width-right, height-bottom)
	fmt.Fprintf(&c.text, `<text x="%d" y="%d" text-anchor="middle">Services</text>`+"\n", left+(width-left-right)/2, height-bottom+38)
}

// all draws a line for each subject, with its name at the end, and the ticks of x.
func (c *chart) all(subjects []string, lines map[string][]point) {
	type label struct {
		name string
		y    float64
	}
	var labels []label
	ticks := map[float64]bool{}
	for _, subject := range subjects {
		points := lines[subject]
		if len(points) == 0 {
			continue
		}
		slices.SortFunc(points, func(a, b point) int { return int(a.x - b.x) })
		color := colors[subject]
		if color == "" {
			color = "#000"
		}
		var path []string
		for _, p := range points {
			ticks[p.x] = true
			path = append(path, fmt.Sprintf("%.1f,%.1f", c.x(p.x), c.y(p.y)))
			fmt.Fprintf(&c.text, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/><text class="value" x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n",
				c.x(p.x), c.y(p.y), color, c.x(p.x)+6, c.y(p.y)-5, color, digits(p.y))
		}
		fmt.Fprintf(&c.text, `<polyline fill="none" stroke="%s" stroke-width="2.5" points="%s"/>`+"\n", color, strings.Join(path, " "))
		labels = append(labels, label{subject, c.y(points[len(points)-1].y)})
	}
	slices.SortFunc(labels, func(a, b label) int { return int(a.y - b.y) })
	for i := range labels {
		if i > 0 {
			labels[i].y = max(labels[i].y, labels[i-1].y+16)
		}
		fmt.Fprintf(&c.text, `<text x="%d" y="%.1f" fill="%s">%s</text>`+"\n", width-right+8, labels[i].y+4, colors[labels[i].name], labels[i].name)
	}
	for x := range ticks {
		fmt.Fprintf(&c.text, `<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", c.x(x), height-bottom+18, x)
	}
}

// Drawn is the number of endpoints with which most sizes were measured.
func (r *Report) Drawn() int {
	count := map[int]int{}
	best := 0
	for _, size := range r.sizes() {
		count[size.Endpoints]++
		if count[size.Endpoints] > count[best] {
			best = size.Endpoints
		}
	}
	return best
}
