package api

// FsQuery is the query of the file routes that take no line range. A missing
// path is 400, never 404: it must not read as an absent file.
type FsQuery struct {
	Path string  `json:"path" schema:"required"`
	Mode *string `json:"mode,omitzero" default:"null"` // octal, of a written file; only PUT /v1/fs/file reads it
}

// ArchiveRefused begins the text of a 500 of PUT /v1/fs/tar that refuses the
// archive for what is in it: the same bytes are refused again. The wire gives
// failures of the file system the same status.
const ArchiveRefused = "the archive is refused: "

// FileReadQuery is the query of GET /v1/fs/file. Lines are 1-based, both ends
// inclusive; an end behind the last line reads to the end of the file.
type FileReadQuery struct {
	Path      string  `json:"path" schema:"required"`
	StartLine *uint64 `json:"start_line,omitzero" default:"null"` // nil: 1
	EndLine   *uint64 `json:"end_line,omitzero" default:"null"`   // nil: the last line
}
