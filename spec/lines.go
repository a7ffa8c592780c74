package spec

import "strings"

// lineEntry is a line on which a table or a key begins.
type lineEntry struct {
	table string // "requirement"
	index int    // of the table among those of its name, from 0
	key   string // empty for the header itself
	line  int    // from 1
}

// lineIndex finds the lines of tables and keys in a TOML text. The decoder
// reports values without their places; findings need them. It understands the
// shape of this package's files: tables of plain keys. In other shapes it may
// miss a place, and then answers 1.
type lineIndex []lineEntry

// indexLines scans a TOML text.
func indexLines(text string) lineIndex {
	var index lineIndex
	counts := map[string]int{}
	table, at, closing := "", 0, ""
	for i, raw := range strings.Split(text, "\n") {
		line := strings.TrimSpace(raw)
		if closing != "" {
			if strings.Contains(line, closing) {
				closing = ""
			}
			continue
		}
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			table = strings.Trim(strings.TrimSpace(strings.SplitN(line, "#", 2)[0]), "[] \t")
			at = counts[table]
			counts[table]++
			index = append(index, lineEntry{table, at, "", i + 1})
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok {
				continue
			}
			index = append(index, lineEntry{table, at, strings.Trim(strings.TrimSpace(key), `"'`), i + 1})
			closing = openValue(strings.TrimSpace(value))
		}
	}
	return index
}

// openValue returns what ends a value that goes on after its line, or "".
func openValue(value string) string {
	for _, quote := range []string{`"""`, `'''`} {
		if rest, ok := strings.CutPrefix(value, quote); ok && !strings.Contains(rest, quote) {
			return quote
		}
	}
	if strings.HasPrefix(value, "[") && !strings.Contains(value, "]") {
		return "]"
	}
	return ""
}

// table returns the line of the header of the index-th table of that name.
func (l lineIndex) table(name string, index int) int {
	for _, e := range l {
		if e.table == name && e.index == index && e.key == "" {
			return e.line
		}
	}
	return 1
}

// key returns the first line that holds the key path.
func (l lineIndex) key(path []string) int {
	table, key := strings.Join(path[:len(path)-1], "."), path[len(path)-1]
	for _, e := range l {
		if e.table == table && e.key == key || e.key == "" && e.table == strings.Join(path, ".") {
			return e.line
		}
	}
	return 1
}
