package cost

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"microvms/client/sizing"
)

// Text shows the report for people: one line a figure, the total, and above all of
// it what the rates are. Its lines end in a newline.
func (r *Report) Text() string {
	var b strings.Builder
	r.heading(&b)
	r.lines(&b)
	fmt.Fprintf(&b, "total: %s\n", r.Total())
	fmt.Fprintf(&b, "durations: %s\n", r.provenance())
	return b.String()
}

// provenance sums up where the durations come from.
func (r *Report) provenance() string {
	isMeasured := func(d Duration) bool { return d.Provenance() == FromMeasurement }
	switch {
	case len(r.durations) == 0:
		return "none"
	case r.FullyMeasured():
		return "all measured"
	case slices.ContainsFunc(r.durations, isMeasured):
		return "partly projected"
	}
	return "all projected"
}

// heading says what is priced, and with which rates.
func (r *Report) heading(b *strings.Builder) {
	fmt.Fprintf(b, "%s: %s\n", r.label, r.size.Describe())
	r.source(b)
}

func (r *Report) source(b *strings.Builder) {
	fmt.Fprintf(b, "rates: %s, retrieved %s, %s\n", r.rates.region, r.rates.retrieved, r.rates.source)
	if r.staleness != "" {
		fmt.Fprintf(b, "warning: %s\n", r.staleness)
	}
}

// lines is the table of items.
func (r *Report) lines(b *strings.Builder) {
	rows := [][]string{{"PHASE", "LINE", "QUANTITY", "UNIT", "AMOUNT", "DURATION", "NOTE"}}
	for _, i := range r.items {
		line, duration := "-", "-"
		if i.Line != "" {
			line = string(i.Line)
		}
		if i.Duration != nil {
			duration = i.Duration.Seconds() + " s " + string(i.Duration.Provenance())
		}
		rows = append(rows, []string{string(i.Phase), line, i.Quantity(), i.Unit, i.Amount.String(), duration, i.Note})
	}
	align(b, rows)
}

// align writes rows in columns, without blanks at the ends of lines.
func align(b *strings.Builder, rows [][]string) {
	var t strings.Builder
	w := tabwriter.NewWriter(&t, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush()
	for line := range strings.Lines(t.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// Dense is the report on one line of tab-separated fields: label, baseline MiB,
// "exact" or "at-least", the exact dollars that are priced, the unpriced phases or
// "-", and "stale" or "current".
func (r *Report) Dense() string {
	kind, unpriced, age := "exact", "-", "current"
	if a, ok := r.Total().(AtLeast); ok {
		var phases []string
		for _, o := range a.unpriced {
			phases = append(phases, string(o.Phase))
		}
		slices.Sort(phases)
		kind, unpriced = "at-least", strings.Join(slices.Compact(phases), ",")
	}
	if r.staleness != "" {
		age = "stale"
	}
	return strings.Join([]string{r.label, fmt.Sprint(r.size.BaselineMiB()), kind, plain(pricedOf(r.Total()).Decimal()), unpriced, age}, "\t")
}

// The wire forms of client facts, section 12.5. Money is a string, because a JSON
// number is read as a float.
type (
	sizeJSON struct {
		BaselineMiB  int         `json:"baselineMib"`
		BaselineVCPU json.Number `json:"baselineVcpu"`
		PeakMiB      int         `json:"peakMib"`
		PeakVCPU     json.Number `json:"peakVcpu"`
		Describe     string      `json:"describe"`
	}
	ratesJSON struct {
		Region    string `json:"region"`
		Retrieved string `json:"retrieved"`
		SourceURL string `json:"sourceUrl"`
	}
	durationJSON struct {
		Seconds    json.Number `json:"seconds"`
		Provenance Provenance  `json:"provenance"`
	}
	itemJSON struct {
		Phase    Phase         `json:"phase"`
		Line     *Line         `json:"line"`
		Quantity string        `json:"quantity"`
		Unit     string        `json:"unit"`
		Amount   Amount        `json:"amount"`
		Duration *durationJSON `json:"duration"`
		Note     string        `json:"note"`
	}
	totalJSON struct {
		Priced       Dollars `json:"priced"`
		IsLowerBound bool    `json:"isLowerBound"`
		Render       string  `json:"render"`
	}
	reportJSON struct {
		Label         string     `json:"label"`
		Size          sizeJSON   `json:"size"`
		Rates         ratesJSON  `json:"rates"`
		Estimated     bool       `json:"estimated"`
		FullyMeasured bool       `json:"fullyMeasured"`
		Complete      bool       `json:"complete"`
		Staleness     *string    `json:"staleness"`
		Items         []itemJSON `json:"items"`
		Total         totalJSON  `json:"total"`
	}
)

func sizeOf(c sizing.Class) sizeJSON {
	return sizeJSON{c.BaselineMiB(), json.Number(c.BaselineVCPU()), c.PeakMiB(), json.Number(c.PeakVCPU()), c.Describe()}
}

// MarshalJSON writes the report in the form of client facts, section 12.5.
func (r *Report) MarshalJSON() ([]byte, error) {
	out := reportJSON{Label: r.label, Size: sizeOf(r.size), Rates: ratesJSON{r.rates.region, r.rates.retrieved.String(), r.rates.source},
		Estimated: true, FullyMeasured: r.FullyMeasured(), Complete: r.Complete(), Items: make([]itemJSON, 0, len(r.items)),
		Total: totalJSON{pricedOf(r.Total()), !r.Complete(), r.Total().String()}}
	if r.staleness != "" {
		out.Staleness = &r.staleness
	}
	for _, i := range r.items {
		item := itemJSON{Phase: i.Phase, Quantity: i.Quantity(), Unit: i.Unit, Amount: i.Amount, Note: i.Note}
		if i.Line != "" {
			item.Line = &i.Line
		}
		if i.Duration != nil {
			item.Duration = &durationJSON{json.Number(i.Duration.Seconds()), i.Duration.Provenance()}
		}
		out.Items = append(out.Items, item)
	}
	return json.Marshal(out)
}
