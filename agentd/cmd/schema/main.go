// Command schema writes the daemon's schema as it is committed, and holds it to
// the one of the last release.
//
// The folder agentd/api/schema holds current.json, which write makes of the Go
// types and the route table; released.json, the current.json of the last
// release; and breaks.toml, which declares the breaks between the two. A
// release runs `schema release` before its tag is set: it checks, then copies
// current.json over released.json, so that the tag holds two equal files.
package main

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"microvms/agentd/internal/compat"
	"microvms/agentd/internal/httpapi"
	"microvms/agentd/internal/limits"
	"microvms/agentd/internal/schema"
)

//go:generate go run . -dir ../../api/schema write

const usage = `usage: schema [-dir DIR] COMMAND

  write     write current.json from the Go types and the route table
  check     compare current.json with them, and with released.json
  release   check, then copy current.json over released.json

Exit status: 0 clean, 1 findings, 2 usage or unreadable files.
`

// committedVersion is the daemon version in the committed files: that of a
// daemon that was given none, so that no build changes them.
const committedVersion = "0.0.0-dev"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("schema", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage) }
	dir := flags.String("dir", "agentd/api/schema", "the folder of the committed schemas")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	commands := map[string]func(string) ([]string, error){"write": write, "check": check, "release": release}
	command, ok := commands[flags.Arg(0)]
	if !ok || flags.NArg() != 1 {
		flags.Usage()
		return 2
	}
	wrong, err := command(*dir)
	if err != nil {
		fmt.Fprintf(stderr, "schema: %v\n", err)
		return 2
	}
	out := bufio.NewWriter(stdout)
	for _, w := range wrong {
		fmt.Fprintln(out, w)
	}
	if err := out.Flush(); err != nil {
		fmt.Fprintf(stderr, "schema: cannot write what differs: %v\n", err)
		return 2
	}
	if len(wrong) > 0 {
		return 1
	}
	return 0
}

// committed returns the schema as current.json must hold it.
func committed() ([]byte, error) {
	return schema.Indent(httpapi.Describe(committedVersion, limits.Limits{}.WithDefaults()))
}

func write(dir string) ([]string, error) {
	text, err := committed()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "current.json"), text, 0o644); err != nil {
		return nil, fmt.Errorf("cannot write the schema: %w", err)
	}
	return nil, nil
}

// check returns what is wrong with the files in dir.
func check(dir string) ([]string, error) {
	want, err := committed()
	if err != nil {
		return nil, err
	}
	texts := map[string][]byte{"current.json": nil, "released.json": nil, "breaks.toml": nil}
	for name := range texts {
		if texts[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("cannot read the committed schemas: %w", err)
		}
	}
	var wrong []string
	if !bytes.Equal(texts["current.json"], want) {
		wrong = append(wrong, "current.json is stale: run `go generate ./agentd/cmd/schema`") // SCHEMA-4
	}
	// Judged on what the daemon serves, so that a stale file cannot hide a break.
	next, err := compat.Parse(want)
	if err != nil {
		return nil, err
	}
	last, err := compat.Parse(texts["released.json"])
	if err != nil {
		return nil, fmt.Errorf("released.json: %w", err)
	}
	declared, err := compat.ParseDeclared(string(texts["breaks.toml"]))
	if err != nil {
		return nil, err
	}
	return append(wrong, compat.Judge(last, next, declared)...), nil
}

func release(dir string) ([]string, error) {
	wrong, err := check(dir)
	if err != nil || len(wrong) > 0 {
		return wrong, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "current.json"))
	if err != nil {
		return nil, fmt.Errorf("cannot read the current schema: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "released.json"), text, 0o644); err != nil {
		return nil, fmt.Errorf("cannot write the released schema: %w", err)
	}
	return nil, nil
}
