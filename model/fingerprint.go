package model

import (
	"math/bits"
	"unsafe"
)

// The keys of the default fingerprint: fixed, so that two processes print the
// same bytes. They are the multipliers of wyhash (Wang Yi, public domain).
const (
	key0 = 0xa0761d6478bd642f
	key1 = 0xe7037ed1a0b428db
	key2 = 0x8ebc6af09c88c6e3
	key3 = 0x589965cc75374cc3
)

// mix folds a 64×64→128 bit product.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// hashState is the default fingerprint: it hashes the bytes of *p, which has no
// padding and no pointers (validate has seen to that). Never 0: an empty slot
// of the visited table is 0.
func hashState[S comparable](p *S) uint64 {
	var h uint64
	at := unsafe.Pointer(p)
	switch n := unsafe.Sizeof(*p); n {
	case 8:
		h = mix(word(at, 0)^key0, key1)
		h = mix(h^key2, key3^8)
	case 16:
		h = mix(mix(word(at, 0)^key0, word(at, 8)^key1)^key2, key3^16)
	case 24:
		a := mix(word(at, 0)^key0, word(at, 8)^key1)
		h = mix(a^key2, word(at, 16)^key3)
		h = mix(h^key0, key1^24)
	case 32:
		a := mix(word(at, 0)^key0, word(at, 8)^key1)
		b := mix(word(at, 16)^key2, word(at, 24)^key3)
		h = mix(a^key1, b^key2)
	default:
		h = hashBytes(at, n)
	}
	if h == 0 {
		h = 1
	}
	return h
}

// hashBytes hashes n bytes, 16 at a time.
func hashBytes(p unsafe.Pointer, n uintptr) uint64 {
	h := uint64(key0)
	i := uintptr(0)
	for ; i+16 <= n; i += 16 {
		h = mix(word(p, i)^key1, word(p, i+8)^h)
	}
	if i < n {
		var a, b uint64
		if i+8 <= n {
			a = word(p, i)
			i += 8
		}
		for shift := 0; i < n; i, shift = i+1, shift+8 {
			b |= uint64(*(*byte)(unsafe.Add(p, i))) << shift
		}
		h = mix(a^key2, b^h)
	}
	return mix(h^key3, key1^uint64(n))
}

func word(p unsafe.Pointer, off uintptr) uint64 { return *(*uint64)(unsafe.Add(p, off)) }

// spread makes a user's fingerprint fit for the table, whose index is its top
// bits: a bijection, so it adds no collision.
func spread(h uint64) uint64 {
	h ^= h >> 32
	h *= key3
	h ^= h >> 29
	if h == 0 {
		h = 1
	}
	return h
}

// bitsOf packs an action into a word.
func (a Action) bitsOf() uint64 { return *(*uint64)(unsafe.Pointer(&a)) }
