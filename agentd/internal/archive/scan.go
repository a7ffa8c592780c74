package archive

import (
	"io"
	"strconv"
)

// maxExtension bounds the extended headers of one member, all together.
const maxExtension = 1 << 20

// maxOctalSize is the greatest size that a ustar header can hold; above it the
// size is in a PAX record alone.
const maxOctalSize = 1<<33 - 1

// gzipMagic begins what gzip made (RFC 1952, section 2.3.1).
const gzipMagic = "\x1f\x8b"

// Member is one entry of an archive.
type Member struct {
	Index  uint64 // from 1
	Offset int64  // of its first header, extended ones included
	Data   int64  // offset of its data
	Size   int64
	Type   byte // type flag; the old and the unknown ones are '0'
	Name   string
	Link   string
	Mode   int64
}

// Scanner reads the headers of an archive one after another and accepts less
// than other readers do: whatever two readers could understand differently is
// refused (FS-21). It belongs to one goroutine.
type Scanner struct {
	src   *window
	off   int64
	index uint64
}

// NewScanner reads size bytes of an archive.
func NewScanner(r io.ReaderAt, size int64) *Scanner {
	return &Scanner{src: &window{r: r, size: size}}
}

// at returns a scanner that reads the same archive on from an offset at which a
// member begins.
func (s *Scanner) at(offset int64) *Scanner { return &Scanner{src: s.src, off: offset} }

// Next returns the next member, io.EOF behind the last, or a *Refusal. With the
// refusal of a member whose data alone is cut short comes the member.
func (s *Scanner) Next() (*Member, error) {
	start, x, spent := s.off, extension{}, int64(0)
	for {
		b, err := s.header()
		if err != nil {
			return nil, err
		}
		if b == nil {
			if start != s.off {
				return nil, broken("extended header without a member")
			}
			return nil, s.end()
		}
		size, bad := number(b[124:136])
		if bad != nil {
			return nil, bad
		}
		switch typ := b[156]; typ {
		case typeExtended, typeGlobal, typeLongName, typeLongLink:
			// FS-22: refused by its claim, before anything is allocated for it.
			if spent += blockSize + (size+blockSize-1)/blockSize*blockSize; size > maxExtension || spent > maxExtension+2*blockSize {
				return nil, broken("extended header of %d bytes; at most 1 MiB is read", size)
			}
			if err := s.extend(&x, typ, size, start); err != nil {
				return nil, err
			}
			if typ == typeGlobal {
				start, spent = s.off, 0
			}
		default:
			m, err := s.member(b, &x, size)
			if m != nil {
				m.Offset = start
			}
			return m, err
		}
	}
}

// header returns the next header, nil for a block of zeros.
func (s *Scanner) header() (block, error) {
	if s.off == 0 && s.src.begins(gzipMagic) { // before its length: it is no tar that was cut short
		return nil, broken("not a tar: the body is compressed with gzip; send it uncompressed")
	}
	raw, err := s.src.bytes(s.off, blockSize)
	if err != nil {
		return nil, err
	}
	b := block(raw)
	if b.zero() {
		return nil, nil
	}
	if bad := b.check(); bad != nil {
		return nil, bad
	}
	s.off += blockSize
	return b, nil
}

// end wants the second block of zeros (FS-26). Without an end an archive that was cut
// between two members would pass for a whole one. What follows is not read.
func (s *Scanner) end() error {
	raw, err := s.src.bytes(s.off+blockSize, blockSize)
	if err != nil {
		return err
	}
	if !block(raw).zero() {
		return broken("a single block of zeros between members")
	}
	return io.EOF
}

// extend reads one extended header.
func (s *Scanner) extend(x *extension, typ byte, size, start int64) error {
	if x.seen[typ] || (typ == typeGlobal && s.off-blockSize != start) {
		return broken("extended header '%c' twice, or out of its place", typ)
	}
	x.seen[typ] = typ != typeGlobal
	data, err := s.src.bytes(s.off, int(size))
	if err != nil {
		return err
	}
	if s.off, err = s.skip(size); err != nil {
		return err
	}
	var bad *Refusal
	switch typ {
	case typeExtended:
		bad = records(data, x.record)
	case typeGlobal:
		bad = records(data, global)
	default:
		var name string
		if name, bad = text(data, "long name"); bad == nil && name == "" {
			bad = broken("empty long name")
		}
		if typ == typeLongName {
			x.longName = &name
		} else {
			x.longLink = &name
		}
	}
	if bad != nil {
		return bad
	}
	return nil
}

// skip returns the offset behind size bytes of data and their padding.
func (s *Scanner) skip(size int64) (int64, error) {
	if size > s.src.size-s.off {
		return 0, broken("archive is cut short")
	}
	return s.off + (size+blockSize-1)/blockSize*blockSize, nil
}

// member reads a member's own header.
func (s *Scanner) member(b block, x *extension, size int64) (*Member, error) {
	name, bad := b.name()
	if bad != nil && x.path == nil && x.longName == nil {
		return nil, bad
	}
	link, bad := text(b[157:257], "link target")
	if bad != nil && x.linkpath == nil && x.longLink == nil {
		return nil, bad
	}
	m := &Member{Data: s.off, Type: b[156]}
	if m.Name, bad = override(name, x.longName, x.path); bad != nil {
		return nil, bad
	}
	if m.Link, bad = override(link, x.longLink, x.linkpath); bad != nil {
		return nil, bad
	}
	if m.Size, bad = resize(size, x.size); bad != nil {
		return nil, about(m.Name, bad)
	}
	if m.Mode, bad = number(b[100:108]); bad != nil {
		return nil, about(m.Name, bad)
	}
	if bad = m.classify(); bad != nil {
		return nil, about(m.Name, bad)
	}
	off, err := s.skip(m.Size)
	if err != nil {
		return m, about(m.Name, err)
	}
	s.index++
	s.off, m.Index = off, s.index
	return m, nil
}

// override returns what the name or link of a member is: that of its header
// unless an extended header says otherwise. Two that differ are refused.
func override(field string, gnu, pax *string) (string, *Refusal) {
	switch {
	case gnu != nil && pax != nil && *gnu != *pax:
		return "", broken("two extended headers contradict each other")
	case pax != nil:
		return *pax, nil
	case gnu != nil:
		return *gnu, nil
	}
	return field, nil
}

// resize applies a PAX size. It may differ from the header's only where the
// header could not have held it.
func resize(size int64, pax *string) (int64, *Refusal) {
	if pax == nil {
		return size, nil
	}
	n, err := strconv.ParseUint(*pax, 10, 63)
	if err != nil || (len(*pax) > 1 && (*pax)[0] == '0') {
		return 0, broken("PAX size is not a number of bytes")
	}
	if int64(n) != size && n <= maxOctalSize {
		return 0, broken("PAX size %d contradicts the header's %d", n, size)
	}
	return int64(n), nil
}

// classify maps the type flags that mean a regular file to one, and refuses
// those whose data this reader does not understand.
func (m *Member) classify() *Refusal {
	switch m.Type {
	case typeOld:
		m.Type = typeRegular
		if n := len(m.Name); n > 0 && m.Name[n-1] == '/' {
			m.Type = typeDir // the oldest format has no folders but by name
		}
	case typeSparse, typeMulti, typeSolaris:
		return &Refusal{Kind: Unsafe, Reason: "members of type '" + string(m.Type) + "' are refused"}
	case typeLink, typeSymlink, typeChar, typeBlock, typeDir, typeFIFO:
	default:
		m.Type = typeRegular // FS-24: POSIX has unknown types treated as files
	}
	if m.Type != typeRegular && m.Size != 0 {
		return broken("type '%c' with %d bytes of data", m.Type, m.Size)
	}
	return nil
}
