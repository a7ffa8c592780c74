package archive

import (
	"archive/tar"
	"errors"
	"io"
)

// Sum is what an archive declares.
type Sum struct {
	Members int
	Bytes   int64
}

// Judge reads every header of an archive and refuses it if one member breaks a
// lexical rule, a cap is passed, or the bytes are no tar that all readers
// understand alike. Nothing is placed meanwhile (FS-15). Errors are *Refusal.
func Judge(r io.ReaderAt, size int64, limits Limits) (Sum, error) {
	s := NewScanner(r, size)
	second := tar.NewReader(&reader{w: &window{r: r, size: size}})
	var sum Sum
	for {
		m, err := s.Next()
		if err == io.EOF {
			return sum, agree(second, nil)
		}
		if err != nil {
			if m != nil && m.Size > limits.Bytes-sum.Bytes {
				// FS-25: what is declared is judged by the header, because the claim is
				// over the cap whether or not its data came.
				return sum, tooManyBytes()
			}
			return sum, err
		}
		if bad := judgeMember(m); bad != nil {
			return sum, about(m.Name, bad)
		}
		if err := agree(second, m); err != nil {
			return sum, about(m.Name, err)
		}
		// FS-25: above the cap and not at it, because the caps are inclusive.
		if sum.Members++; sum.Members > limits.Members {
			return sum, &Refusal{Kind: TooMuch, Reason: "archive holds more members than max_tar_members"}
		}
		if m.Size > limits.Bytes-sum.Bytes {
			return sum, tooManyBytes()
		}
		sum.Bytes += m.Size
	}
}

func tooManyBytes() *Refusal {
	return &Refusal{Kind: TooMuch, Reason: "archive declares more bytes than max_tar_bytes"}
}

// agree holds the scanner's member, nil at the end, against what archive/tar
// makes of the same bytes: an archive that means two things means neither.
func agree(second *tar.Reader, m *Member) error {
	for {
		h, err := second.Next()
		if errors.Is(err, tar.ErrInsecurePath) {
			err = nil // the lexical rules are our own
		}
		switch {
		case err == io.EOF && m == nil:
			return nil
		case err != nil:
			return &Refusal{Kind: Broken, Reason: "archive/tar refuses what this reader accepts", Err: err}
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		case m == nil, h.Name != m.Name, h.Linkname != m.Link, h.Size != m.Size, !sameType(h.Typeflag, m.Type):
			return broken("two readers understand the archive differently")
		}
		return nil
	}
}

func sameType(flag, typ byte) bool {
	switch flag {
	case typeLink, typeSymlink, typeChar, typeBlock, typeDir, typeFIFO:
		return flag == typ
	}
	return typ == typeRegular
}
