package accounts

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// ImageUserPath is where an image seals the user of its own processes: a
// regular file, owned by root and writable by nobody else, that holds
// "UID:GID" in decimal and may end in a newline.
const ImageUserPath = "/etc/agentd/image-user"

// ImageUser is the sealed record of the image's user.
type ImageUser struct {
	UID, GID uint32
	Err      error // why there is no user in it; nil when there is
}

// String returns the ids as the record and discovery spell them.
func (u *ImageUser) String() string {
	return strconv.FormatUint(uint64(u.UID), 10) + ":" + strconv.FormatUint(uint64(u.GID), 10)
}

// maxRecord is the length of the longest record: two numbers of ten digits, a
// colon and a newline.
const maxRecord = 22

// ReadImageUser reads the sealed record. It is called once, before the daemon
// serves: ACCOUNT-3: a workload that rewrites the file later changes nothing,
// and what was read rides the snapshot. A record that cannot be used is not an
// error of the daemon's start: it refuses the starts that would need it.
func ReadImageUser(path string) *ImageUser {
	u, err := readImageUser(path)
	if err != nil {
		return &ImageUser{Err: err}
	}
	return u
}

func readImageUser(path string) (*ImageUser, error) {
	data, info, err := readFile(path, maxRecord, syscall.O_NOFOLLOW)
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr):
		return nil, pathErr.Err
	case err != nil:
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch { // whoever can write the record chooses whom every later command runs as
	case !ok || int(stat.Uid) != os.Geteuid():
		return nil, errors.New("it is not owned by the daemon's user")
	case info.Mode().Perm()&0o022 != 0:
		return nil, errors.New("it is writable by others than its owner")
	}
	return ParseImageUser(string(data))
}

// ParseImageUser reads the record's text: two decimal numbers of 32 bits,
// without leading zeros, with a colon between them, and an optional newline.
func ParseImageUser(text string) (*ImageUser, error) {
	uid, gid, _ := strings.Cut(strings.TrimSuffix(text, "\n"), ":")
	u := &ImageUser{}
	var uidOK, gidOK bool
	u.UID, uidOK = number(uid)
	u.GID, gidOK = number(gid)
	if !uidOK || !gidOK || u.String() != uid+":"+gid {
		return nil, errors.New("it is not of the form UID:GID")
	}
	return u, nil
}
