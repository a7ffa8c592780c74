package histories

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"microvms/agentd/api"
)

// The operations on files, of scope ByPath.
const (
	Put     Kind = "put"      // writes one file in place
	Get     Kind = "get"      // reads one file
	TarUp   Kind = "tar up"   // writes several files, each anew
	TarDown Kind = "tar down" // reads all files
)

// ByPath: bootstrap finished before; each file is judged by itself. The wire
// promises no moment at which a whole archive, or even one file, changes: what
// it promises is that a write that was answered stays, that paths do not
// disturb each other, and that a reader sees bytes that somebody wrote there.
const ByPath Scope = "by path"

// filePaths are the files of a history below its root.
var filePaths = []string{"a", "b", "d/c"}

// Fill is a file's content as far as a history needs it.
type Fill []Stretch

// Stretch is a number of equal bytes.
type Stretch struct {
	Mark byte `json:"mark"`
	Size int  `json:"size"`
}

func fill(content []byte) Fill {
	f := Fill{}
	for len(content) > 0 {
		n := len(content) - len(bytes.TrimLeft(content, string(content[:1])))
		f = append(f, Stretch{content[0], n})
		content = content[n:]
	}
	return f
}

func (f Fill) bytes() []byte {
	var out []byte
	for _, r := range f {
		out = append(out, bytes.Repeat([]byte{r.Mark}, r.Size)...)
	}
	return out
}

// fileRequest returns a file operation as wire version 1 has it (wire facts, section 11).
func (o *Operation) fileRequest() (method, path string, body []byte, err error) {
	query := func(at string) string { return "?path=" + url.QueryEscape(at) }
	switch o.Kind {
	case Put:
		return http.MethodPut, api.PathFile + query(o.Root+"/"+o.Path), o.Files[o.Path].bytes(), nil
	case Get:
		return http.MethodGet, api.PathFile + query(o.Root+"/"+o.Path), nil, nil
	case TarDown:
		return http.MethodGet, api.PathTar + query(o.Root), nil, nil
	}
	body, err = pack(o.Files)
	return http.MethodPut, api.PathTar + query(o.Root), body, err
}

func pack(files map[string]Fill) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range filePaths {
		content, ok := files[name]
		if !ok {
			continue
		}
		data := content.bytes()
		err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(data))})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot pack %q: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack an archive: %w", err)
	}
	return buf.Bytes(), nil
}

// readFiles decodes what a read saw; a refusal has nothing to decode.
func (a *Answer) readFiles(o *Operation, body []byte) error {
	if a.Status != http.StatusOK {
		return nil
	}
	a.Files = map[string]Fill{}
	if o.Kind == Get {
		a.Files[o.Path] = fill(body)
		return nil
	}
	in := tar.NewReader(bytes.NewReader(body))
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read an archive: %w", err)
		}
		name := strings.TrimPrefix(h.Name, "./")
		if h.Typeflag == tar.TypeDir {
			continue
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return fmt.Errorf("cannot read member %q: %w", name, err)
		}
		if _, twice := a.Files[name]; twice || !slices.Contains(filePaths, name) || h.Typeflag != tar.TypeReg {
			return fmt.Errorf("an archive holds %q, of type %q, which is not one of the history's files or is there twice", name, h.Typeflag)
		}
		a.Files[name] = fill(content)
	}
}

// emptyFolder makes the folder of a history: an archive without members makes its root.
func (c client) emptyFolder(ctx context.Context, addr, root string) error {
	own := c.at(addr, func() int64 { return 0 })
	defer own.wire.close()
	a, err := own.perform(ctx, &Operation{Kind: TarUp, Root: root, Token: HarnessToken})
	if err != nil {
		return fmt.Errorf("cannot make the folder of a history: %w", err)
	}
	if a.Status != http.StatusNoContent {
		return fmt.Errorf("cannot make the folder of a history: status %d", a.Status)
	}
	return nil
}

// closingFiles reads every file of the history at its end.
func closingFiles(all []Operation) []Operation {
	root := all[0].Root
	ops := []Operation{{Client: Clients, Kind: TarDown, Root: root, Token: HarnessToken}}
	for _, p := range filePaths {
		ops = append(ops, Operation{Client: Clients, Kind: Get, Path: p, Root: root, Token: HarnessToken})
	}
	return ops
}
