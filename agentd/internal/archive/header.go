package archive

import (
	"bytes"
	"math"
	"strings"
)

// Type flags (POSIX.1-2017 pax, ustar interchange format; GNU tar's tar.h).
const (
	typeRegular  = '0'
	typeOld      = 0 // regular in the oldest format
	typeLink     = '1'
	typeSymlink  = '2'
	typeChar     = '3'
	typeBlock    = '4'
	typeDir      = '5'
	typeFIFO     = '6'
	typeExtended = 'x'
	typeGlobal   = 'g'
	typeLongName = 'L'
	typeLongLink = 'K'
	typeSparse   = 'S'
	typeMulti    = 'M'
	typeSolaris  = 'X'
)

const blockSize = 512

// block is one 512-byte header.
type block []byte

func (b block) zero() bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// check compares the checksum with the sum of the bytes, as unsigned ones, or
// as signed ones, as some old writers had it.
func (b block) check() *Refusal {
	want, bad := octal(b[148:156])
	if bad != nil {
		return broken("header checksum is not a number")
	}
	var unsigned, signed int64
	for i, c := range b {
		if i >= 148 && i < 156 {
			c = ' '
		}
		unsigned += int64(c)
		signed += int64(int8(c))
	}
	if want != unsigned && want != signed {
		return broken("header checksum does not match")
	}
	return nil
}

// number reads a numeric field: octal digits, or base 256 where the first bit
// is set.
func number(field []byte) (int64, *Refusal) {
	if field[0]&0x80 == 0 {
		return octal(field)
	}
	if field[0]&0x40 != 0 {
		return 0, broken("a number is negative")
	}
	var n uint64
	for i, c := range field {
		if i == 0 {
			c &= 0x3f
		}
		if n > math.MaxInt64>>8 {
			return 0, broken("a number does not fit 63 bits")
		}
		n = n<<8 | uint64(c)
	}
	return int64(n), nil
}

// octal reads octal digits between blanks and NULs; nothing is 0.
func octal(field []byte) (int64, *Refusal) {
	var n int64
	for _, c := range bytes.Trim(field, " \x00") {
		if c < '0' || c > '7' || n > math.MaxInt64>>3 {
			return 0, broken("a number is not octal")
		}
		n = n<<3 | int64(c-'0')
	}
	return n, nil
}

// text reads a field that ends at its first NUL. Bytes behind it are refused:
// readers differ in what they make of them.
func text(field []byte, what string) (string, *Refusal) {
	s, rest, _ := bytes.Cut(field, []byte{0})
	if !block(rest).zero() {
		return "", broken("%s holds a NUL byte", what)
	}
	return string(s), nil
}

// name reads the name with its ustar prefix.
func (b block) name() (string, *Refusal) {
	name, bad := text(b[0:100], "name")
	if bad != nil || string(b[257:263]) != "ustar\x00" {
		return name, bad
	}
	field := b[345:500]
	if string(b[508:512]) == "tar\x00" { // star has times behind a shorter prefix
		field = b[345:476]
	}
	prefix, bad := text(field, "name prefix")
	if bad != nil || prefix == "" {
		return name, bad
	}
	return prefix + "/" + name, nil
}

// extension is what extended headers say about the member after them.
type extension struct {
	longName, longLink   *string // GNU
	path, linkpath, size *string // PAX
	seen                 [256]bool
}

// records parses the records of a PAX header, strictly: each has the length
// that it claims, a key of its own, and no empty or torn value where the value
// decides what the archive is.
func records(data []byte, each func(key, value string) *Refusal) *Refusal {
	seen := map[string]bool{}
	for len(data) > 0 {
		digits, _, found := bytes.Cut(data[:min(len(data), 20)], []byte{' '})
		if !found || len(digits) == 0 || digits[0] == '0' {
			return broken("PAX record without a length")
		}
		length := 0
		for _, c := range digits {
			if c < '0' || c > '9' || length > len(data) {
				return broken("PAX record with a wrong length")
			}
			length = length*10 + int(c-'0')
		}
		if length > len(data) || length < len(digits)+4 || data[length-1] != '\n' {
			return broken("PAX record with a wrong length")
		}
		key, value, found := strings.Cut(string(data[len(digits)+1:length-1]), "=")
		switch {
		case !found || key == "" || strings.IndexByte(key, 0) >= 0:
			return broken("PAX record without a key")
		case seen[key]:
			return broken("PAX record %s is there twice", quote(key))
		case strings.HasPrefix(key, "GNU.sparse."):
			return &Refusal{Kind: Unsafe, Reason: "sparse members are refused"}
		}
		seen[key] = true
		if bad := each(key, value); bad != nil {
			return bad
		}
		data = data[length:]
	}
	return nil
}

// decides reports whether a PAX record changes what is placed where.
func decides(key string) bool { return key == "path" || key == "linkpath" || key == "size" }

func (x *extension) record(key, value string) *Refusal {
	if !decides(key) {
		return nil
	}
	if value == "" || strings.IndexByte(value, 0) >= 0 {
		return broken("PAX record %s is empty or holds a NUL byte", key)
	}
	switch key {
	case "path":
		x.path = &value
	case "linkpath":
		x.linkpath = &value
	case "size":
		x.size = &value
	}
	return nil
}

// global refuses what would rename or resize all members that follow.
func global(key, _ string) *Refusal {
	if decides(key) {
		return broken("global PAX record %s", key)
	}
	return nil
}
