package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"microvms/client"
)

// apiVersion is the envelope's version.
const apiVersion = "1"

// format is how results are written. Both false: text for humans.
type format struct{ json, dense bool }

// result is what a command hands to the dispatcher, which alone writes it.
type result struct {
	kind  string // the envelope's type
	data  any    // the envelope's data, a struct with the documented keys
	text  string // for humans, with control characters escaped
	dense string // one line for scripts that want no JSON
	// stdout and stderr are a remote command's output: under text and dense
	// they are written as they are.
	stdout, stderr string
	warnings       []string
	exit           int  // of a success envelope
	compact        bool // the envelope ends a stream of JSON lines
	delivered      bool // it is written already
}

// okEnvelope is the success envelope.
type okEnvelope struct {
	Status     string `json:"status"`
	APIVersion string `json:"apiVersion"`
	Type       string `json:"type"`
	Data       any    `json:"data"`
}

// errorEnvelope is the failure envelope; all keys are always present.
type errorEnvelope struct {
	Status      string         `json:"status"`
	APIVersion  string         `json:"apiVersion"`
	Error       string         `json:"error"`
	Code        client.Kind    `json:"code"`
	ExitCode    int            `json:"exitCode"`
	Finding     string         `json:"finding"`
	Suggestions []string       `json:"suggestions"`
	Data        map[string]any `json:"data"`
}

// commandError adds to an error what the dispatcher writes beside it.
type commandError struct {
	err         error
	exit        int // overrides the kind's exit code when not 0
	data        map[string]any
	suggestions []string
	own         bool // the suggestions stand in for the row's hint and finding
	compact     bool // it ends a stream of JSON lines
	ended       bool // the run has ended: there is nothing to follow or to cancel
	delivered   bool // it is written already
}

func (e *commandError) Error() string { return e.err.Error() }
func (e *commandError) Unwrap() error { return e.err }

// usage is an error in the command line.
func usage(format string, args ...any) error {
	return &client.Error{Kind: client.KindInvalidArg, Message: fmt.Sprintf(format, args...)}
}

// succeed writes a command's result and returns the exit code.
func (a *app) succeed(res *result) int {
	a.deliver(res)
	return a.finish(res.exit)
}

// deliver writes a result, unless it is written already.
func (a *app) deliver(res *result) {
	if res.delivered {
		return
	}
	res.delivered = true
	for _, w := range res.warnings {
		fmt.Fprintf(a.stderr, "warning: %s\n", a.clean(w))
	}
	switch {
	case a.format.json:
		a.writeEnvelope(okEnvelope{"ok", apiVersion, res.kind, res.data}, res.compact)
	case a.format.dense:
		if res.dense != "" {
			fmt.Fprintln(a.stdout, res.dense)
		}
	default:
		a.stdout.WriteString(res.stdout)
		a.stderr.WriteString(res.stderr)
		a.stdout.WriteString(res.text)
	}
}

// fail writes an error and returns its exit code.
func (a *app) fail(err error) int {
	return a.finish(a.deliverFailure(err))
}

// deliverFailure writes an error, unless it is written already, and returns its
// exit code.
func (a *app) deliverFailure(err error) int {
	env, compact := a.failure(err)
	var ce *commandError
	switch {
	case errors.As(err, &ce) && ce.delivered:
	case a.wrote:
		// Never two envelopes: what fails after the first is a warning.
		fmt.Fprintf(a.stderr, "warning: %s\n", a.clean(env.Error))
	case a.format.json:
		a.writeEnvelope(env, compact)
		if a.stdout.broken() { // its reader left: the outcome must still be named somewhere
			a.writeFailureText(env)
		}
	case a.format.dense:
		fmt.Fprintf(a.stderr, "%s\t%s\n", env.Code, a.clean(env.Error))
	default:
		a.writeFailureText(env)
	}
	return env.ExitCode
}

// failure builds the envelope of an error.
func (a *app) failure(err error) (errorEnvelope, bool) {
	kind, wire := client.KindOf(err), client.WireKindOf(err)
	row := rowOf(kind)
	env := errorEnvelope{Status: "error", APIVersion: apiVersion, Error: a.redact(err.Error()), Code: row.Code,
		ExitCode: row.Exit, Finding: findingOf(err, row), Suggestions: []string{}, Data: map[string]any{}}
	var ce *commandError
	if errors.As(err, &ce) {
		maps.Copy(env.Data, ce.data)
		env.Suggestions = append(env.Suggestions, ce.suggestions...)
		if ce.own {
			env.Finding = ""
		}
		if ce.exit != 0 {
			env.ExitCode = ce.exit
		}
	}
	if hint := hintOf(err, row); hint != "" && (ce == nil || !ce.own) {
		env.Suggestions = append(env.Suggestions, hint)
	}
	if daemonStatus(err) {
		env.Data["kind"] = string(wire)
	}
	return env, ce != nil && ce.compact
}

// writeFailureText writes a failure for humans to stderr.
func (a *app) writeFailureText(env errorEnvelope) {
	fmt.Fprintf(a.stderr, "%s %s: %s\n", a.paint("error"), env.Code, a.clean(env.Error))
	if env.Finding != "" {
		fmt.Fprintf(a.stderr, "see docs/PLATFORM.md, '%s'\n", env.Finding)
	}
	for _, s := range env.Suggestions {
		fmt.Fprintf(a.stderr, "hint: %s\n", a.clean(s))
	}
	for _, key := range slices.Sorted(maps.Keys(env.Data)) {
		fmt.Fprintf(a.stderr, "%s: %s\n", key, a.clean(fmt.Sprint(env.Data[key])))
	}
}

// writeEnvelope writes the one document of a run.
//
// CLI-4: it is written here and nowhere else, and only once, because a reader
// of --json must find exactly one envelope.
func (a *app) writeEnvelope(envelope any, compact bool) {
	a.wrote = true
	a.stdout.Write(encode(envelope, compact || a.format.dense))
}

// encode is one JSON document and a newline; HTML characters stay as they are.
func encode(v any, compact bool) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if !compact {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		panic("cannot encode a result: " + err.Error())
	}
	return buf.Bytes()
}

// finish decides the exit code once all is written.
func (a *app) finish(code int) int {
	// CLI-8, CLI-23: a reader that left changes no outcome. A failing disk does: what
	// was to be delivered is lost, so 0 would be a lie.
	if err := a.stdout.failure(); err != nil && !a.stdout.left() && code == 0 {
		if errors.Is(err, client.ErrInterrupted) {
			fmt.Fprintf(a.stderr, "%s %s: %v\n", a.paint("error"), client.KindInterrupted, err)
			return exitOf(client.KindInterrupted)
		}
		fmt.Fprintf(a.stderr, "%s %s: cannot write the output: %v\n", a.paint("error"), client.KindPrecondition, err)
		return exitOf(client.KindPrecondition)
	}
	return code
}

// redact keeps the agent token out of a message.
//
// CLI-17: the library redacts what the daemon echoes; this is for what the
// command line holds, which a parse error quotes.
func (a *app) redact(text string) string {
	if a.secret == "" {
		return text
	}
	// What was redacted before is left alone: a short token may be part of the word itself.
	const word = "[redacted]"
	parts := strings.Split(text, word)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], a.secret, word)
	}
	return strings.Join(parts, word)
}

// clean makes a text safe for a terminal and for logs.
func (a *app) clean(text string) string { return escape(a.redact(text)) }
