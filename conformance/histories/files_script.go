package histories

import (
	"math/rand/v2"
)

// fileSizes are the lengths of files: none, one byte, and around the daemon's units of copying.
var fileSizes = []int{0, 1, 511, 4096, 70000}

// byPath plans a history on files below root, on a daemon that is bootstrapped. Each write has a byte of its own.
func byPath(rng *rand.Rand, root string) plan {
	p := plan{scope: ByPath}
	mark, open := byte(0), 0
	content := func() Fill {
		mark++
		if size := pick(rng, fileSizes...); size > 0 {
			return Fill{{mark, size}}
		}
		return Fill{}
	}
	for c := range p.clients {
		for range 6 {
			op := Operation{Client: c, Token: HarnessToken, Root: root, Path: pick(rng, filePaths...)}
			switch r := rng.IntN(100); {
			case r < 26:
				op.Kind, op.Files = Put, map[string]Fill{op.Path: content()}
			case r < 60:
				op.Kind = Get
			case r < 78:
				op.Kind, op.Files = TarUp, map[string]Fill{}
				for _, path := range filePaths {
					if path == op.Path || rng.IntN(3) == 0 {
						op.Files[path] = content()
					}
				}
				op.Path = ""
			default:
				op.Kind, op.Path = TarDown, ""
			}
			op.Cut = fileCut(rng, op.Kind, &open)
			p.clients[c] = append(p.clients[c], op)
		}
	}
	return p
}

// maxOpenFiles bounds the writes of unknown outcome in one history: a file that one of them touches is in flux to the
// end, so little can be said of it.
const maxOpenFiles = 1

func fileCut(rng *rand.Rand, k Kind, open *int) Cut {
	if rng.IntN(10) != 0 {
		return NoCut
	}
	c := pick(rng, CutBefore, CutAfter)
	if k == Put || k == TarUp && c == CutAfter {
		if *open >= maxOpenFiles {
			return NoCut
		}
		*open++
	}
	return c
}
