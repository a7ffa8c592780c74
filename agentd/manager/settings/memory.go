package settings

import (
	"bufio"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
)

// Pool returns the number of permits: the configured total, or else free
// memory and free swap in whole GiB times PerGiB, rounded down. It is never
// less than the dearer of the two costs, so that each run fits in.
//
// SETTING-8: a pool below a cost would queue such runs without end.
func (p Permits) Pool(meminfo string) (int, error) {
	least := max(p.Sync, p.Nondet)
	if p.Total != nil {
		return max(*p.Total, least), nil
	}
	gib, err := freeGiB(meminfo)
	if err != nil {
		return 0, fmt.Errorf("cannot size the pool of permits: %w; set permits.total", err)
	}
	n := new(big.Rat).Mul(p.PerGiB, new(big.Rat).SetInt64(gib))
	whole := new(big.Int).Quo(n.Num(), n.Denom())
	if !whole.IsInt64() || whole.Int64() > maxCost {
		return maxCost, nil
	}
	return max(int(whole.Int64()), least), nil
}

// MemInfo is the kernel's account of the machine's memory.
const MemInfo = "/proc/meminfo"

// freeGiB reads MemFree and SwapFree, in KiB, and sums them in whole GiB. It is
// the free memory of manager facts, section 4.3, and not what the kernel could
// make available by dropping caches.
func freeGiB(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var kib int64
	found := map[string]bool{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		if name != "MemFree" && name != "SwapFree" {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q in %q is no number: %w", name, path, err)
		}
		kib += n
		found[name] = true
	}
	if err := lines.Err(); err != nil {
		return 0, err
	}
	if !found["MemFree"] {
		return 0, errors.New("the kernel names no MemFree")
	}
	return kib >> 20, nil
}
