package httpapi

import (
	"net/http"

	"microvms/agentd/api"
)

var diskFull = statusDoc{http.StatusInsufficientStorage, "", "the write would take free space below the disk reserve; the body names the available and reserved bytes"}

var fileGetDoc = routeDoc{
	summary: "read one file, or a range of its lines, 1-based and inclusive; an end behind the last line reads to the end",
	query:   api.FileReadQuery{}, media: api.MediaBytes, note: "the bytes of the file or of its lines, streamed",
	statuses: []statusDoc{
		{http.StatusOK, "", "the bytes; empty for a range behind the last line"},
		{http.StatusBadRequest, "", "path is missing or names a folder, or the range is no range of lines"},
		{http.StatusNotFound, "", "nothing is at this path"},
		{http.StatusInternalServerError, "", "the file cannot be opened or looked at"},
	},
}

var filePutDoc = routeDoc{
	summary: "write one file in place at any path, making its folders; the mode is octal, 0644 when absent",
	query:   api.FsQuery{}, upload: api.MediaBytes, carries: "the bytes of the file, streamed to disk",
	statuses: []statusDoc{
		{http.StatusNoContent, "", "written, with its mode"},
		{http.StatusBadRequest, "", "path is missing or mode is not octal, and nothing was written; or the body was cut short"},
		{http.StatusRequestTimeout, "", "the request body stalled"},
		diskFull,
		{http.StatusInternalServerError, "", "a folder, the file or its mode could not be made"},
	},
}

var tarGetDoc = routeDoc{
	summary: "download a folder as a tar; symbolic links are stored as links",
	query:   api.FsQuery{}, media: api.MediaTar, note: "an uncompressed tar with the folder itself as ./",
	statuses: []statusDoc{
		{http.StatusOK, "", "the archive"},
		{http.StatusBadRequest, "", "path is missing or names no folder"},
		{http.StatusNotFound, "", "nothing is at this path"},
		{http.StatusRequestEntityTooLarge, "", "the tree exceeds limits.max_tar_members or limits.max_tar_bytes, or the request body exceeds limits.max_body_bytes"},
		diskFull,
		{http.StatusInternalServerError, "", "the tree cannot be read or packed"},
	},
}

var tarPutDoc = routeDoc{
	summary: "upload a tar and extract it below a folder that no member can leave",
	query:   api.FsQuery{}, upload: api.MediaTar, carries: "an uncompressed tar, streamed to an unlinked file",
	statuses: []statusDoc{
		{http.StatusNoContent, "", "extracted"},
		{http.StatusBadRequest, "", "path is missing, relative or no folder; the body was cut short; or a member, named in the body, breaks a rule of confinement"},
		{http.StatusRequestTimeout, "", "the request body stalled"},
		{http.StatusRequestEntityTooLarge, "", "the request body exceeds limits.max_body_bytes, or the archive exceeds limits.max_tar_members or limits.max_tar_bytes"},
		diskFull,
		{http.StatusInternalServerError, "", "the body is no tar that all readers understand alike, or a member could not be made"},
	},
}
