package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// completionCommand is `microvm completion`. The script is made from the command
// tree, so that it never offers what the parser refuses.
type completionCommand struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (c *completionCommand) run(_ context.Context, a *app) (*result, error) {
	script := completionScript(c.Shell, a.parser.Model)
	return &result{kind: "microvm.completion", text: script, dense: strings.TrimSuffix(script, "\n"), data: struct {
		Shell  string `json:"shell"`
		Script string `json:"script"`
	}{c.Shell, script}}, nil
}

// completionScript completes commands, and the flags of each.
func completionScript(shell string, app *kong.Application) string {
	var commands []string
	var cases strings.Builder
	for _, cmd := range app.Children {
		commands = append(commands, cmd.Name)
		var flags []string
		for _, group := range cmd.AllFlags(true) {
			for _, flag := range group {
				flags = append(flags, "--"+flag.Name)
			}
		}
		if shell == "fish" {
			fmt.Fprintf(&cases, "complete -c microvm -n '__fish_use_subcommand' -a %s -d '%s'\n", cmd.Name, strings.ReplaceAll(cmd.Help, "'", `\'`))
			for _, flag := range flags {
				fmt.Fprintf(&cases, "complete -c microvm -n '__fish_seen_subcommand_from %s' -l %s\n", cmd.Name, flag[2:])
			}
			continue
		}
		fmt.Fprintf(&cases, "    %s) words='%s' ;;\n", cmd.Name, strings.Join(flags, " "))
	}
	switch shell {
	case "fish":
		return "complete -c microvm -f\n" + cases.String() + "complete -c microvm -n '__fish_seen_subcommand_from cp' -F\n"
	case "zsh":
		return "#compdef microvm\nautoload -U +X bashcompinit && bashcompinit\n" + bashFunction(commands, cases.String())
	}
	return bashFunction(commands, cases.String())
}

func bashFunction(commands []string, cases string) string {
	return "_microvm() {\n" +
		"  local words command word\n" +
		"  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n" +
		"    case $word in -*) ;; *) command=$word; break ;; esac\n" +
		"  done\n" +
		"  case $command in\n" +
		"    '') words='" + strings.Join(commands, " ") + " --help --version' ;;\n" + cases +
		"  esac\n" +
		"  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n" +
		"}\n" +
		"complete -o default -F _microvm microvm\n" // files where no word fits
}
