package verify

import (
	"encoding/xml"
	"fmt"
	"strings"

	"microvms/model"
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Failure *junitOut `xml:"failure,omitempty"`
	Error   *junitOut `xml:"error,omitempty"`
}

type junitOut struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// add appends a case: a violation is a failure, an inconclusive answer an error.
func (s *junitSuite) add(class, name string, v model.Verdict, text string) {
	c := junitCase{Class: class, Name: name}
	first, _, _ := strings.Cut(text, "\n")
	// VERIFY-15: an error is no failure: the answer is not known.
	switch v {
	case model.Violated:
		c.Failure = &junitOut{Message: first, Text: text}
		s.Failures++
	case model.Inconclusive:
		c.Error = &junitOut{Message: first, Text: text}
		s.Errors++
	}
	s.Tests++
	s.Cases = append(s.Cases, c)
}

// junit renders stages, models and requirements as JUnit XML, so that any CI can show them.
func (r *Report) junit() []byte {
	all := junitSuites{Name: "verify", Time: fmt.Sprintf("%.3f", r.Seconds)}
	stages := junitSuite{Name: "stages"}
	for _, s := range r.Stages {
		stages.add("verify", s.Name, s.Verdict, strings.Join(append(append([]string{}, s.Problems...), s.Unsure...), "\n"))
	}
	models := junitSuite{Name: "models"}
	for _, m := range r.Models {
		v, text := model.Holds, ""
		if !m.AsExpected {
			v, text = model.Violated, "the check did not find exactly what is expected"
		}
		models.add("model."+m.Name, m.Config, v, text)
	}
	rows := junitSuite{Name: "requirements"}
	for _, q := range r.Requirements {
		text := ""
		if len(q.Missing) > 0 {
			text = "required layers without evidence: " + strings.Join(q.Missing, ", ")
		}
		rows.add("requirement", q.ID, q.Verdict, text)
	}
	for _, s := range []junitSuite{stages, models, rows} {
		s.Time = "0"
		all.Tests, all.Failures, all.Errors = all.Tests+s.Tests, all.Failures+s.Failures, all.Errors+s.Errors
		all.Suites = append(all.Suites, s)
	}
	out, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		panic("verify: internal error: cannot encode JUnit XML: " + err.Error())
	}
	return append([]byte(xml.Header), append(out, '\n')...)
}
