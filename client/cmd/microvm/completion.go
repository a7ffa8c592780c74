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

// completionScript completes commands, subcommands, and the flags of each.
func completionScript(shell string, app *kong.Application) string {
	var commands, groups []string
	var cases strings.Builder
	for _, cmd := range app.Children {
		commands = append(commands, cmd.Name)
		if shell == "fish" {
			fmt.Fprintf(&cases, "complete -c microvm -n '__fish_use_subcommand' -a %s -d '%s'\n", cmd.Name, fishQuoted(cmd.Help))
		}
		if len(cmd.Children) == 0 {
			completeFlags(&cases, shell, cmd, cmd.Name)
			continue
		}
		var subs []string
		for _, sub := range cmd.Children {
			subs = append(subs, sub.Name)
			completeFlags(&cases, shell, sub, cmd.Name, sub.Name)
		}
		groups = append(groups, cmd.Name)
		if shell == "fish" {
			fmt.Fprintf(&cases, "complete -c microvm -n '__fish_seen_subcommand_from %s' -a '%s'\n", cmd.Name, strings.Join(subs, " "))
		} else {
			fmt.Fprintf(&cases, "    %s) words='%s --help' ;;\n", cmd.Name, strings.Join(subs, " "))
		}
	}
	switch shell {
	case "fish":
		return "complete -c microvm -f\n" + cases.String() + "complete -c microvm -n '__fish_seen_subcommand_from cp' -F\n"
	case "zsh":
		return "#compdef microvm\nautoload -U +X bashcompinit && bashcompinit\n" + bashFunction(commands, groups, cases.String())
	}
	return bashFunction(commands, groups, cases.String())
}

func fishQuoted(text string) string { return strings.ReplaceAll(text, "'", `\'`) }

// completeFlags adds the flags of the command that path leads to.
func completeFlags(to *strings.Builder, shell string, cmd *kong.Node, path ...string) {
	var flags []string
	for _, group := range cmd.AllFlags(true) {
		for _, flag := range group {
			flags = append(flags, "--"+flag.Name)
		}
	}
	if shell != "fish" {
		fmt.Fprintf(to, "    '%s') words='%s' ;;\n", strings.Join(path, " "), strings.Join(flags, " "))
		return
	}
	seen := "__fish_seen_subcommand_from " + strings.Join(path, "; and __fish_seen_subcommand_from ")
	for _, flag := range flags {
		fmt.Fprintf(to, "complete -c microvm -n '%s' -l %s\n", seen, flag[2:])
	}
}

// bashFunction completes the word after the commands before it: groups take one
// more.
func bashFunction(commands, groups []string, cases string) string {
	return "_microvm() {\n" +
		"  local words command word\n" +
		"  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n" +
		"    case $word in -*) continue ;; esac\n" +
		"    command=\"${command:+$command }$word\"\n" +
		"    case $command in " + strings.Join(groups, "|") + ") ;; *) break ;; esac\n" +
		"  done\n" +
		"  case $command in\n" +
		"    '') words='" + strings.Join(commands, " ") + " --help --version' ;;\n" + cases +
		"  esac\n" +
		"  COMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n" +
		"}\n" +
		"complete -o default -F _microvm microvm\n" // files where no word fits
}
