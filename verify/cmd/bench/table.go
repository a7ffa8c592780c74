package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// writeTable prints one line a figure, by part.
func writeTable(out io.Writer, c measureCmd, results []result) error {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	part := ""
	for _, r := range results {
		if r.Part != part {
			part = r.Part
			fmt.Fprintf(w, "%s\tours\tpeer\tratio\ttarget\tverdict\tothers\tnoisy\tpeer is\n", strings.ToUpper(part))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Name, r.oursText(), r.peerText(), r.ratioText(), r.Target.text(r.Unit), r.Verdict,
			r.othersText(), r.noisyText(), r.PeerName)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	rounds := "rounds"
	if c.Rounds == 1 {
		rounds = "round"
	}
	fmt.Fprintf(&b, "\n%d %s; medians of the quiet ones. others: cores that other processes took; above %.1f a round is noisy.\n", c.Rounds, rounds, noisyCores)
	if c.Quick {
		fmt.Fprintln(&b, "Quick: the work was a small share of what the targets speak of.")
	}
	for _, r := range results {
		if r.Verdict == notMeasured && r.Why != "" {
			fmt.Fprintf(&b, "%s: not measured: %s\n", r.Name, r.Why)
		}
	}
	_, err := io.WriteString(out, trimLines(b.String()))
	return err
}

// trimLines takes away the spaces that columns leave at the ends of lines.
func trimLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func (r *result) oursText() string {
	if len(r.Samples) == 0 {
		return "–"
	}
	return strings.TrimSpace(number(r.Ours) + " " + r.Unit)
}

func (r *result) peerText() string {
	switch {
	case r.PeerName == "":
		return ""
	case r.Peer == 0:
		return "peer not measured"
	}
	return strings.TrimSpace(number(r.Peer) + " " + r.Unit)
}

func (r *result) ratioText() string {
	if r.Ratio == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Ratio)
}

func (r *result) othersText() string {
	if r.Others < 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", r.Others)
}

func (r *result) noisyText() string {
	if r.Others < 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", r.Noisy, len(r.Samples))
}

// jsonFigure is one figure of --json.
type jsonFigure struct {
	Part       string   `json:"part"`
	Name       string   `json:"name"`
	Unit       string   `json:"unit,omitempty"`
	PeerName   string   `json:"peer_name,omitempty"`
	Ours       float64  `json:"ours"`
	Peer       float64  `json:"peer,omitempty"`
	Ratio      float64  `json:"ratio,omitempty"`
	Target     string   `json:"target,omitempty"`
	Verdict    verdict  `json:"verdict"`
	Why        string   `json:"why,omitempty"`
	Others     *float64 `json:"others_cores,omitempty"` // median; absent where nothing was timed
	NoisyCount int      `json:"noisy_rounds"`
	Rounds     []sample `json:"rounds"`
}

// writeJSON prints one object with every round of every figure.
func writeJSON(out io.Writer, c measureCmd, results []result) error {
	all := struct {
		Rounds  int          `json:"rounds"`
		Quick   bool         `json:"quick,omitempty"`
		Figures []jsonFigure `json:"figures"`
	}{Rounds: c.Rounds, Quick: c.Quick, Figures: []jsonFigure{}}
	for _, r := range results {
		f := jsonFigure{
			Part: r.Part, Name: r.Name, Unit: r.Unit, PeerName: r.PeerName, Ours: r.Ours, Peer: r.Peer, Ratio: r.Ratio,
			Target: r.Target.text(r.Unit), Verdict: r.Verdict, Why: r.Why, NoisyCount: r.Noisy, Rounds: r.Samples,
		}
		if r.Others >= 0 {
			f.Others = &r.Others
		}
		all.Figures = append(all.Figures, f)
	}
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(all)
}
