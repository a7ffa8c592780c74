package httpapi

import (
	"net/url"
	"strconv"
	"strings"
)

// parseOffset reads the offset of a stream's query: decimal digits that fit 64
// bits, at most once, 0 when absent. Anything else is refused, never clamped:
// a wrong offset would silently lose or repeat output. Unknown keys are
// ignored, whatever their form.
func parseOffset(query string) (offset uint64, ok bool) {
	seen := false
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if name, err := url.QueryUnescape(key); err != nil || name != "offset" {
			continue
		}
		if seen {
			return 0, false
		}
		seen = true
		digits, err := url.QueryUnescape(value)
		if err != nil || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return 0, false
		}
		if offset, err = strconv.ParseUint(digits, 10, 64); err != nil {
			return 0, false
		}
	}
	return offset, true
}
