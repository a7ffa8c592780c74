// Command spec judges the requirements, writes SPEC.md and CODES.md from them,
// and records reviews.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"microvms/spec"
)

const usage = `usage: spec [-dir DIR] COMMAND

  lint [-json] [-strict]   judge the requirements; -strict fails on warnings as well
  render [-check]          write SPEC.md and spec/CODES.md; -check only compares them
  review ID… | -all        record that the named requirements were read in their present text

Exit status: 0 clean, 1 findings or stale files, 2 usage or unreadable files.
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("spec", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	dir := flags.String("dir", "", "the folder spec/ (default: found from the working directory)")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *dir == "" {
		*dir = find()
	}
	set, err := spec.Load(os.DirFS(*dir))
	if err != nil {
		fmt.Fprintf(stderr, "spec: %v\n", err)
		return 2
	}
	rest := flags.Args()
	if len(rest) == 0 {
		flags.Usage()
		return 2
	}
	commands := map[string]func(*spec.Set, string, []string, io.Writer, io.Writer) int{"lint": lint, "render": render, "review": review}
	command, ok := commands[rest[0]]
	if !ok {
		flags.Usage()
		return 2
	}
	out := bufio.NewWriter(stdout)
	status := command(set, *dir, rest[1:], out, stderr)
	if err := out.Flush(); err != nil {
		// Whatever was found, nobody has read it.
		fmt.Fprintf(stderr, "spec: cannot write the report: %v\n", err)
		return 2
	}
	return status
}

// find returns the folder that holds spec.toml: the working directory, as under
// go generate, or its folder spec.
func find() string {
	if _, err := os.Stat("spec.toml"); err == nil {
		return "."
	}
	return "spec"
}

func lint(set *spec.Set, _ string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("spec lint", flag.ContinueOnError)
	flags.SetOutput(stderr)
	asJSON := flags.Bool("json", false, "print the report as JSON")
	strict := flags.Bool("strict", false, "fail on warnings as well")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	report := spec.Lint(set)
	if *asJSON {
		encoder := json.NewEncoder(stdout)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(report); err != nil {
			fmt.Fprintf(stderr, "spec: cannot write the report: %v\n", err)
			return 2
		}
	} else {
		for _, f := range report.Findings {
			fmt.Fprintln(stdout, f)
		}
		fmt.Fprintf(stdout, "requirements=%d terms=%d checks=%d errors=%d warnings=%d waived=%d\n",
			report.Requirements, report.Terms, report.Checks, report.Errors(), report.Warnings(), report.Waived())
	}
	if report.Errors() > 0 || *strict && report.Strict() > 0 {
		return 1
	}
	return 0
}

func render(set *spec.Set, dir string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("spec render", flag.ContinueOnError)
	flags.SetOutput(stderr)
	check := flags.Bool("check", false, "compare instead of write")
	if flags.Parse(args) != nil || flags.NArg() > 0 {
		return 2
	}
	status := 0
	for _, file := range []struct {
		name string
		data []byte
	}{{filepath.Join(dir, "..", "SPEC.md"), spec.RenderSpec(set)}, {filepath.Join(dir, "CODES.md"), spec.RenderCodes()}} {
		old, err := os.ReadFile(file.name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintf(stderr, "spec: %v\n", err)
			return 2
		}
		if err == nil && bytes.Equal(old, file.data) {
			continue
		}
		if *check {
			fmt.Fprintf(stdout, "%s is stale; run `go generate ./spec`\n", filepath.Base(file.name))
			status = 1
			continue
		}
		if err := os.WriteFile(file.name, file.data, 0o644); err != nil {
			fmt.Fprintf(stderr, "spec: %v\n", err)
			return 2
		}
	}
	return status
}

func review(set *spec.Set, dir string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("spec review", flag.ContinueOnError)
	flags.SetOutput(stderr)
	all := flags.Bool("all", false, "review every requirement")
	if flags.Parse(args) != nil || *all == (flags.NArg() > 0) {
		fmt.Fprintln(stderr, "spec: name the requirements that were read, or give -all")
		return 2
	}
	ids := flags.Args()
	if *all {
		for i := range set.Requirements {
			ids = append(ids, set.Requirements[i].ID)
		}
	}
	data, err := spec.Review(set, ids)
	if err != nil {
		fmt.Fprintf(stderr, "spec: %v\n", err)
		return 2
	}
	if err := os.WriteFile(filepath.Join(dir, "reviewed.toml"), data, 0o644); err != nil {
		fmt.Fprintf(stderr, "spec: %v\n", err)
		return 2
	}
	fmt.Fprintf(stdout, "reviewed %d requirements\n", len(ids))
	return 0
}
