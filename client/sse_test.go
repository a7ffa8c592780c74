package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"microvms/agentd/api"
)

// readFrames reads all frames; what ends the stream is returned with them.
func readFrames(src io.Reader, limit int) (frames []string, err error) {
	r := newFrameReader(src, limit)
	for {
		f, err := r.next()
		if err != nil {
			return frames, err
		}
		frames = append(frames, f.event+"|"+string(f.data))
	}
}

// referenceFrames is the plain reading of the format: all bytes at hand, every
// line terminator turned into LF, lines taken one by one. It shares no code
// with the parser.
func referenceFrames(input []byte, limit int) (frames []string, over bool) {
	event, data, start := "", []string(nil), 0
	for pos := 0; pos < len(input); {
		end := pos
		for end < len(input) && input[end] != '\r' && input[end] != '\n' {
			end++
		}
		size := min(end+1, len(input)) - start // the LF of a CR LF is not counted
		for i := start; i < end; i++ {
			if input[i] == '\n' && i > 0 && input[i-1] == '\r' {
				size--
			}
		}
		if size > limit {
			return frames, true
		}
		if end == len(input) {
			break
		}
		line := string(input[pos:end])
		pos = end + 1
		if input[end] == '\r' && pos < len(input) && input[pos] == '\n' {
			pos++
		}
		if line == "" {
			if data != nil {
				frames = append(frames, event+"|"+strings.Join(data, "\n"))
			}
			event, data, start = "", nil, pos
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		if field == "event" {
			event = value
		}
		if field == "data" {
			data = append(data, value)
		}
	}
	return frames, false
}

// Every mixture of terminators ends a frame, wherever the bytes are split. The
// goal is BIND-22's first half; the method is one stream in each spelling, cut
// at every position and delivered byte by byte.
func TestFrameTerminators(t *testing.T) {
	t.Attr("requirement", "BIND-22")
	for _, eol := range []string{"\n", "\r", "\r\n"} {
		for _, blank := range []string{"\n", "\r", "\r\n"} {
			if eol == "\r" && blank == "\n" {
				continue // is CR LF: one terminator, no empty line
			}
			input := "event: a" + eol + "data: 1" + eol + "data:2" + eol + blank + ": comment" + eol + blank + "data:  x" + eol + blank
			want := []string{"a|1\n2", "| x"}
			for cut := range len(input) {
				src := io.MultiReader(strings.NewReader(input[:cut]), strings.NewReader(input[cut:]))
				got, err := readFrames(src, maxFrameBytes)
				if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
					t.Fatalf("eol %q, blank %q, cut %d: %v\n%s", eol, blank, cut, err, diff)
				}
			}
			got, _ := readFrames(iotest.OneByteReader(strings.NewReader(input)), maxFrameBytes)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("eol %q, blank %q, byte by byte:\n%s", eol, blank, diff)
			}
		}
	}
}

// What is not a well-formed frame is dropped, and what follows is still read.
func TestFramesDropped(t *testing.T) {
	t.Attr("requirement", "BIND-22")
	cases := map[string][]string{
		"":                              nil,
		"data: no end":                  nil,
		"data: no empty line\n":         nil,
		"event: x\n\ndata: y\n\n":       {"|y"}, // a name without data does not leak into the next frame
		":\n\n:\n\ndata: y\n\n":         {"|y"},
		"\n\n\n\ndata: y\n\n":           {"|y"},
		"data\n\n":                      {"|"},
		"data:\n\n":                     {"|"},
		"id: 1\nretry: 2\ndata: y\n\n":  {"|y"},
		"DATA: x\n\n data: x\n\n":       nil,
		"event: a\nevent: b\ndata:\n\n": {"b|"},
	}
	for input, want := range cases {
		got, err := readFrames(strings.NewReader(input), maxFrameBytes)
		if diff := cmp.Diff(want, got); diff != "" || err != io.EOF {
			t.Errorf("%q: %v\n%s", input, err, diff)
		}
	}
}

// endless repeats a text, for longer than any reader should listen, and counts
// what was read of it.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, bytes.Repeat([]byte(e.text), len(p)/len(e.text)+1))
	e.read += n
	return n, nil
}

// A frame that never ends is an error after 4 MiB, whatever it is made of.
func TestFrameLimit(t *testing.T) {
	t.Attr("requirement", "BIND-22")
	for _, text := range []string{"x", "data: x\n", ": comment\n", "\x00"} {
		src := &endless{text: text}
		_, err := readFrames(io.LimitReader(src, 4*maxFrameBytes), maxFrameBytes)
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindProtocol {
			t.Errorf("%q: error is %v, want one of %s", text, err, KindProtocol)
		}
		if src.read > maxFrameBytes+64<<10 {
			t.Errorf("%q: read %d bytes before giving up", text, src.read)
		}
	}
	exact := "data: " + strings.Repeat("x", maxFrameBytes-8) + "\n\n"
	if frames, err := readFrames(strings.NewReader(exact), maxFrameBytes); len(frames) != 1 || err != io.EOF {
		t.Errorf("a frame of exactly the limit: %d frames, %v", len(frames), err)
	}
	if _, err := readFrames(strings.NewReader("x"+exact), maxFrameBytes); KindOf(err) != KindProtocol {
		t.Errorf("a frame of one byte more: %v", err)
	}
}

// A stream that fails midway gives the frames before, then that failure.
func TestFrameSourceError(t *testing.T) {
	broken := errors.New("broken")
	frames, err := readFrames(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), maxFrameBytes)
	if len(frames) != 1 || !errors.Is(err, broken) {
		t.Errorf("frames %q, error %v", frames, err)
	}
}

// FuzzFrames compares the parser, fed in pieces, with the plain reading.
func FuzzFrames(f *testing.F) {
	for _, seed := range []string{"event: a\ndata: 1\n\n", "data:1\r\rdata:2\r\n\r\n", "data:\n\r\n:\n\n", "\r\n\n\rdata", "data: a\r\ndata: b\r\n\r"} {
		f.Add([]byte(seed), uint8(3), uint16(64))
	}
	f.Fuzz(func(t *testing.T, input []byte, piece uint8, limit uint16) {
		step := int(piece)%7 + 1
		var parts []io.Reader
		for rest := input; len(rest) > 0; rest = rest[min(step, len(rest)):] {
			parts = append(parts, bytes.NewReader(rest[:min(step, len(rest))]))
		}
		got, err := readFrames(io.MultiReader(parts...), int(limit))
		want, over := referenceFrames(input, int(limit))
		if diff := cmp.Diff(want, got); diff != "" || over != (err != io.EOF) {
			t.Errorf("step %d, limit %d: error %v, reference over the limit: %v\n%s", step, limit, err, over, diff)
		}
	})
}

func BenchmarkFrames(b *testing.B) {
	frame := fmt.Sprintf("event: output\ndata: %s\n\n", strings.Repeat("A", 21852))
	b.SetBytes(int64(len(frame)))
	r := newFrameReader(&endless{text: frame}, maxFrameBytes)
	for b.Loop() {
		if _, err := r.next(); err != nil {
			b.Fatal(err)
		}
	}
}

// FuzzDecodeOutput compares the fast decoding of output events with the plain
// one: what the fast one takes, encoding/json reads the same way.
func FuzzDecodeOutput(f *testing.F) {
	for _, seed := range []string{`{"offset":0,"stream":"stdout","output":"YQ=="}`, `{"offset":18446744073709551615,"stream":"stderr","output":"YWI="}`,
		`{"offset":01,"stream":"stdout","output":"YQ=="}`, `{"offset":+1,"stream":"stdout","output":"YQ=="}`, `{"offset":1,"stream":"stdout","output":"YQ=="}x"}`,
		`{"offset":1,"stream":"stdout","output":"Y\nQ=="}`, `{"offset":1_0,"stream":"stdout","output":"YQ=="}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fast, ok := decodeCanonical(data)
		if !ok || bytes.ContainsAny(data, "\r\n") { // a frame's data has one line
			return
		}
		var plain api.OutputEvent
		if err := json.Unmarshal(data, &plain); err != nil {
			t.Fatalf("%q: the fast decoder takes what is no event: %v", data, err)
		}
		if diff := cmp.Diff(plain, fast); diff != "" {
			t.Errorf("%q: plain (-), fast (+)\n%s", data, diff)
		}
	})
}
