package verify

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
)

//go:embed report.html.tmpl
var pageText string

//go:embed report.css
var pageStyle string

//go:embed report.js
var pageScript string

var page = template.Must(template.New("report").Parse(pageText))

// html renders the self-contained page: the whole report as data beside one script, no request to anywhere.
func (r *Report) html() ([]byte, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the report for the page: %w", err)
	}
	// VERIFY-16: style, script and data stand in the page, because it is read where there is no network.
	var b bytes.Buffer
	err = page.Execute(&b, map[string]any{
		"Verdict": string(r.Verdict), "Style": template.CSS(pageStyle), "Script": template.JS(pageScript),
		// encoding/json escapes <, > and &, so the data cannot end its script element.
		"Data": template.JS(data),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot render the page: %w", err)
	}
	return b.Bytes(), nil
}
