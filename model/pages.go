package model

// pages is a list that never copies its elements when it grows, so that its
// peak memory is its size. Elements hold no pointers.
type pages[T any] struct {
	page [][]T
	n    uint64
}

const (
	pageBits = 15
	pageMask = 1<<pageBits - 1
)

func (p *pages[T]) at(i uint64) T     { return p.page[i>>pageBits][i&pageMask] }
func (p *pages[T]) set(i uint64, v T) { p.page[i>>pageBits][i&pageMask] = v }

// tail returns the page that takes the next element, with room for one.
func (p *pages[T]) tail() *[]T {
	k := int(p.n >> pageBits)
	if k == len(p.page) {
		var first []T
		if k > 0 {
			first = make([]T, 0, 1<<pageBits)
		}
		p.page = append(p.page, first)
	}
	return &p.page[k]
}

func (p *pages[T]) push(v T) {
	t := p.tail()
	*t = append(*t, v)
	p.n++
}

func (p *pages[T]) pushAll(vs []T) {
	for len(vs) > 0 {
		t := p.tail()
		k := min(len(vs), 1<<pageBits-len(*t))
		*t = append(*t, vs[:k]...)
		p.n += uint64(k)
		vs = vs[k:]
	}
}

// search returns the first index whose element is not less, in a list that ascends.
func searchPages(p *pages[uint32], v uint32) uint64 {
	lo, hi := uint64(0), p.n
	for lo < hi {
		mid := lo + (hi-lo)/2
		if p.at(mid) < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
