package hostile

import (
	"fmt"
	"strings"
)

// member is one header of an archive with its data, as raw as a row needs it.
type member struct {
	name, link string
	typ        byte
	body       string
	mode       int64
	size       string              // of the size field, empty: the body's
	edit       func(header []byte) // before the checksum
	spoil      func(header []byte) // behind it
}

const tarBlock = 512

// bytes builds the header and the padded data.
func (m member) bytes() string {
	b := make([]byte, tarBlock)
	copy(b[0:100], m.name)
	copy(b[100:108], fmt.Sprintf("%07o", m.mode))
	copy(b[108:116], "0000000")
	copy(b[116:124], "0000000")
	size := m.size
	if size == "" {
		size = fmt.Sprintf("%011o", len(m.body))
	}
	copy(b[124:136], size)
	copy(b[136:148], "00000000000")
	b[156] = m.typ
	copy(b[157:257], m.link)
	copy(b[257:265], "ustar\x0000")
	if m.edit != nil {
		m.edit(b)
	}
	copy(b[148:156], "        ")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:156], fmt.Sprintf("%06o\x00 ", sum))
	if m.spoil != nil {
		m.spoil(b)
	}
	pad := (tarBlock - len(m.body)%tarBlock) % tarBlock
	return string(b) + m.body + strings.Repeat("\x00", pad)
}

// unended is an archive without the two blocks of its end.
func unended(members ...member) string {
	var b strings.Builder
	for _, m := range members {
		b.WriteString(m.bytes())
	}
	return b.String()
}

var tarEnd = strings.Repeat("\x00", 2*tarBlock)

// archived is a whole archive.
func archived(members ...member) string { return unended(members...) + tarEnd }

func regular(name, body string) member { return member{name: name, typ: '0', body: body, mode: 0o644} }
func folder(name string) member        { return member{name: name, typ: '5', mode: 0o755} }
func linked(name, to string) member    { return member{name: name, typ: '2', link: to, mode: 0o777} }

// extended is a PAX header of records, each "key=value".
func extended(typ byte, records ...string) member {
	var b strings.Builder
	for _, r := range records {
		n := len(r) + 3
		for len(fmt.Sprintf("%d %s\n", n, r)) != n {
			n++
		}
		fmt.Fprintf(&b, "%d %s\n", n, r)
	}
	return member{name: "PaxHeaders.0/x", typ: typ, body: b.String(), mode: 0o644}
}

// named gives a member a name of any length and any bytes but NUL.
func named(name string, m member) string {
	return extended('x', "path="+name).bytes() + m.bytes()
}
