package cost_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"microvms/client/cost"
)

// TestReportForms are golden: the whole text, dense line and JSON of each case.
func TestReportForms(t *testing.T) {
	gb, err := cost.GBOf(1.5)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		u     cost.Usage
		today string
	}{
		"everything": {cost.Usage{Label: "everything", Size: size(t, 2048), Build: measured(t, 95*time.Second), Image: gb, Launched: true,
			Running: measured(t, 10500*time.Millisecond), Suspended: projected(t, 30*24*time.Hour), Cycles: 2}, "2026-08-08"},
		"stale":        {cost.Usage{Label: "run", Size: size(t, 512), Launched: true, Running: measured(t, time.Hour)}, "2027-08-07"},
		"image-only":   {cost.Usage{Label: "image", Size: size(t, 2048), Image: gb, ImageRetained: measured(t, time.Minute)}, "2026-08-08"},
		"build-only":   {cost.Usage{Label: "build", Size: size(t, 2048), Build: measured(t, time.Minute)}, "2026-08-08"},
		"own-snapshot": {cost.Usage{Label: "snapshot", Size: size(t, 8192), Launched: true, Suspended: projected(t, 0), Snapshot: gb, Cycles: 1}, "2026-08-08"},
		"nothing":      {cost.Usage{Label: "nothing", Size: size(t, 2048)}, "2026-08-08"},
	} {
		r, err := cost.Price(cost.Pinned(), tc.u, day(t, tc.today))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, r.Text()+"\n"+r.Dense()+"\n\n"+indented(t, r))
	}
}

// TestComparisonForms are golden, for a case of each outcome.
func TestComparisonForms(t *testing.T) {
	never := rates(t, "0.000001", "0.000001", "3.6", "1", "1")
	for name, c := range map[string]*cost.Comparison{
		"comparison":       compare(t, cost.Pinned(), size(t, 2048), 3600, 1),
		"comparison-short": compare(t, cost.Pinned(), size(t, 512), 60, 3),
		"comparison-never": compare(t, never, size(t, 512), 86400, 1),
		// Prices at which an hour costs the same: 0.75 a second, 2700 for the transfers.
		"comparison-same": compare(t, rates(t, "1", "1", "0.0036", "2699.6976", "2699.6976"), size(t, 512), 3600, 1),
	} {
		golden(t, name, c.Text()+"\n"+c.Dense()+"\n\n"+indented(t, c))
	}
}

func indented(t *testing.T, v any) string {
	t.Helper()
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

var drawnPoints = regexp.MustCompile(`points="([^"]*)"`)

// TestPageIsSelfContained reads the page: it fetches nothing, draws both lines
// inside the plot, and has the answer's sentences and the lines' amounts.
func TestPageIsSelfContained(t *testing.T) {
	for name, c := range map[string]*cost.Comparison{
		"usual": compare(t, cost.Pinned(), size(t, 2048), 3600, 1), "none": compare(t, rates(t, "0.000001", "0.000001", "3.6", "1", "1"), size(t, 512), 60, 1),
		"no time": compare(t, cost.Pinned(), size(t, 2048), 0, 0), "far": compare(t, rates(t, "1000", "1", "0.00000001", "100000", "1"), size(t, 8192), 1e12, 9),
		"long": compare(t, rates(t, "0.00000000001", "0.000000000001", "0.000000001", "100", "1"), size(t, 512), 1e9, 1),
	} {
		var page bytes.Buffer
		if err := c.HTML(&page); err != nil {
			t.Fatal(err)
		}
		text := page.String()
		for _, fetched := range []string{"<script", "src=", "<link", "url(", "@import"} {
			if strings.Contains(text, fetched) {
				t.Errorf("%s: the page has %s", name, fetched)
			}
		}
		for _, part := range append(strings.Split(c.String(), "\n"), c.Running().Total().String(), c.Suspended().Total().String()) {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q is not on the page", name, part)
			}
		}
		svg := text[strings.Index(text, "<svg"):strings.Index(text, "</svg>")]
		_, ok := c.BreakEven()
		if strings.Contains(svg, "break-even: ") != ok || strings.Contains(svg, "this hold: ") != (name != "no time") {
			t.Errorf("%s: the marks are wrong", name)
		}
		drawings := drawnPoints.FindAllStringSubmatch(text, -1)
		if len(drawings) != 2 {
			t.Fatalf("%s: %d lines are drawn", name, len(drawings))
		}
		for _, d := range drawings {
			inside(t, name, d[1])
		}
		if err := wellFormed(svg + "</svg>"); err != nil {
			t.Errorf("%s: the drawing is not well-formed: %v", name, err)
		}
	}
}

// inside wants every point of a line within the plot's frame.
func inside(t *testing.T, name, points string) {
	t.Helper()
	var p struct{ X, Y float64 }
	n := 0
	for pair := range strings.FieldsSeq(points) {
		x, y, _ := strings.Cut(pair, ",")
		if err := json.Unmarshal([]byte(`{"X":`+x+`,"Y":`+y+`}`), &p); err != nil || p.X < 84 || p.X > 796 || p.Y < 40 || p.Y > 372 {
			t.Fatalf("%s: point %s (%v)", name, pair, err)
		}
		n++
	}
	if n < 100 {
		t.Errorf("%s: %d points", name, n)
	}
}

func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

type brokenWriter struct{}

var errBroken = errors.New("broken")

func (brokenWriter) Write([]byte) (int, error) { return 0, errBroken }

func TestPageReportsItsWriter(t *testing.T) {
	if err := compare(t, cost.Pinned(), size(t, 512), 60, 1).HTML(brokenWriter{}); !errors.Is(err, errBroken) {
		t.Errorf("%v", err)
	}
}
