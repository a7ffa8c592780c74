package manifest

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// Version is a number of the form vMAJOR.MINOR.PATCH, without its pre-release
// suffix, which has no part in any order (manager facts, section 4.4).
type Version struct{ Major, Minor, Patch uint32 }

// ParseVersion reads "v1.2.3", "1.2.3" or "v1.2.3-pre". Numbers are decimal,
// without sign, and fit 32 bits.
func ParseVersion(text string) (Version, error) {
	number, pre, suffixed := strings.Cut(strings.TrimPrefix(text, "v"), "-")
	parts := strings.Split(number, ".")
	// EXECUTOR-9: the text is a directory's name, and nothing else may be made of it.
	if len(parts) != 3 || suffixed && (pre == "" || strings.Trim(pre, suffixLetters) != "" || strings.Contains(pre, "..")) {
		return Version{}, fmt.Errorf("%q is not of the form vX.Y.Z or vX.Y.Z-pre", text)
	}
	var n [3]uint32
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 32)
		if err != nil {
			return Version{}, fmt.Errorf("%q is not of the form vX.Y.Z: %q is no number of 32 bits", text, p)
		}
		n[i] = uint32(v)
	}
	return Version{n[0], n[1], n[2]}, nil
}

// suffixLetters are those of a pre-release suffix (Semantic Versioning 2.0.0,
// item 9).
const suffixLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-"

// Compare orders versions by major, minor and patch number.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch))
}
