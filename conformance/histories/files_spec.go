package histories

import (
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// fileState is one file. A write takes time: from its first half to its second
// the file is in flux.
type fileState struct {
	Writers uint64 // writes in flux, by number
	Torn    bool   // two of them overlap, so what they leave is a mixture
	Exists  bool
	Mixed   bool   // the content is a mixture of Parts
	Content uint8  // number of the write whose content the file has, plus one; not meaningful while Mixed
	Parts   uint64 // in flux or Mixed: the writes whose bytes may be there
}

// fileSpec is the sequential specification of one file.
type fileSpec struct {
	writes []fileWrite // by number
}

type fileWrite struct {
	content Fill // one stretch, or none
	gone    bool // the file may be absent meanwhile: an archive unlinks the old one first, and a body that is cut leaves none
}

func (f fileSpec) specification() specification[fileState] {
	return specification[fileState]{silent: func(fileState) []fileState { return nil }, apply: f.apply}
}

// fileParts splits a history of files: each path by itself, for nothing couples them.
func (h *History) fileParts() []part {
	var out []part
	for _, path := range filePaths {
		out = append(out, filePart(path, h.pointers()))
	}
	return out
}

func (h *History) pointers() []*Operation {
	ops := make([]*Operation, len(h.Operations))
	for i := range h.Operations {
		ops[i] = &h.Operations[i]
	}
	return ops
}

// filePart is the partition of one path. An open write may land at any later moment, and never ends.
func filePart(path string, ops []*Operation) part {
	var spec fileSpec
	p := part{name: path}
	add := func(o *Operation, h half, end int64) {
		if end < 0 {
			end = math.MaxInt64
		}
		p.operations = append(p.operations, porcupine.Operation{
			ClientId: o.Client, Input: entry{Operation: o, half: h, number: uint8(len(spec.writes)), path: path}, Call: o.Call, Output: o.Answer, Return: end,
		})
	}
	for _, o := range ops {
		content, writes := o.Files[path]
		switch {
		case o.Kind == TarUp && o.Cut == CutBefore:
			// An archive that is not whole has no effect: the judge does without it.
		case writes:
			add(o, first, o.Return)
			if o.Known() {
				add(o, second, o.Return)
			}
			spec.writes = append(spec.writes, fileWrite{content, o.Kind == TarUp || o.Cut == CutBefore})
		case !o.Known() || o.Answer.Broken || o.Answer.Status >= 500:
			// Nobody knows what it saw; refusals are held to their cause by refusedFile.
		case o.Kind == Get && o.Path == path, o.Kind == TarDown:
			add(o, only, o.Return)
		}
	}
	p.model = spec.specification().porcupine()
	return p
}

func (f fileSpec) apply(s fileState, e entry) []fileState {
	bit := uint64(1) << e.number
	switch e.half {
	case first:
		if s.Writers == 0 && !s.Mixed {
			s.Parts = 0
			if s.Content > 0 {
				s.Parts = 1 << (s.Content - 1)
			}
		}
		s.Torn = s.Torn || s.Writers != 0
		s.Writers |= bit
		s.Parts |= bit
		return []fileState{s}
	case second:
		if s.Writers&bit == 0 {
			return nil
		}
		s.Writers &^= bit
		if e.Answer.Status < 400 {
			s.Exists = true
			return []fileState{s.ended(e.number)}
		}
		// An upload that failed stopped somewhere, perhaps before it came to this file.
		s.Torn = true
		reached := s
		reached.Exists = true
		return []fileState{s.ended(e.number), reached.ended(e.number)}
	}
	if !f.sees(s, e) {
		return nil
	}
	return []fileState{s}
}

// ended settles the content once no write is in flux: it is the last writer's, or a mixture.
func (s fileState) ended(number uint8) fileState {
	switch {
	case s.Writers != 0:
	case !s.Exists:
		s = fileState{}
	case s.Torn:
		s.Torn, s.Mixed, s.Content = false, true, 0
	default:
		s.Mixed, s.Content, s.Parts = false, number+1, 0
	}
	return s
}

// sees reports whether the file can look in state s as the entry saw it.
func (f fileSpec) sees(s fileState, e entry) bool {
	got, there := e.Answer.Files[e.path]
	if s.Writers == 0 && !s.Mixed {
		if !s.Exists || !there {
			return s.Exists == there
		}
		return slices.Equal(got, f.writes[s.Content-1].content)
	}
	if !there {
		return s.Writers != 0 && (!s.Exists || f.gone(s))
	}
	at := 0
	for _, r := range got {
		at += r.Size
		if !f.partOf(s, r.Mark, at) {
			return false
		}
	}
	return true
}

func (f fileSpec) gone(s fileState) bool {
	for n, w := range f.writes {
		if s.Parts&(1<<n) != 0 && w.gone {
			return true
		}
	}
	return false
}

// partOf reports whether one of the writes that may have left bytes has mark in all bytes up to end. Zero bytes stand
// where one writer cut the file off behind which another went on.
func (f fileSpec) partOf(s fileState, mark byte, end int) bool {
	if mark == 0 {
		return true
	}
	for n, w := range f.writes {
		if s.Parts&(1<<n) != 0 && len(w.content) == 1 && w.content[0].Mark == mark && end <= w.content[0].Size {
			return true
		}
	}
	return false
}

// refusedFile returns what is wrong with the statuses of file operations, or "": a single file is written and read, and
// an archive fails, and a body ends early, only beside a write to one of its files.
func refusedFile(ops []*Operation) string {
	for _, o := range ops {
		if !o.Known() {
			continue
		}
		want := map[Kind]int{Put: 204, Get: 200, TarUp: 204, TarDown: 200}[o.Kind]
		status := o.Answer.Status
		if !o.Answer.Broken && (status == want || o.Kind == Get && status == 404) {
			continue
		}
		beside := func(p *Operation) bool {
			if p == o || p.Call > o.Return || p.Return >= 0 && p.Return < o.Call {
				return false
			}
			for path := range p.Files {
				if _, both := o.Files[path]; both || o.Kind == TarDown || o.Path == path {
					return true
				}
			}
			return false
		}
		if (o.Answer.Broken || status == 500 && (o.Kind == TarUp || o.Kind == TarDown)) && slices.ContainsFunc(ops, beside) {
			continue
		}
		return fmt.Sprintf("%s is no answer to give here (body cut: %v)", o.Label(), o.Answer.Broken)
	}
	return ""
}

// fileClaims counts the operations that showed a requirement of files.
func (h *History) fileClaims(count map[string]int64) {
	for _, o := range h.pointers() {
		if !o.Known() || o.Answer.Broken {
			continue
		}
		switch a := o.Answer; {
		case o.Kind == Get && a.Status == 200:
			count["FS-1"]++
		case o.Kind == Get:
			count["FS-2"]++
		case o.Kind == Put:
			count["FS-5"]++
		case o.Kind == TarUp && a.Status == 204:
			count["FS-13"]++
		case o.Kind == TarDown && a.Status == 200:
			count["FS-14"]++
		}
	}
}
