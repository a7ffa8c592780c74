package accounts

import (
	"fmt"

	"microvms/agentd/api"
)

// Principal is whom a child runs as, with the variables of its account.
type Principal struct {
	UID, GID *uint32           // nil: the daemon's own
	Identity map[string]string // HOME, USER, LOGNAME of the passwd row; nil without a row
}

// Default is whom a start without a user runs as. The zero value is the
// daemon's own user, without an identity.
type Default struct {
	// Name is AGENTD_DEFAULT_USER; nil when it is not set. Set but empty is
	// set: it names nobody, so it refuses.
	Name *string
	// Image is the user that the image sealed; nil when it asks for none. It
	// counts only while Name is nil.
	Image *ImageUser
}

// Configured reports whether the image sets a user for starts without one.
func (d Default) Configured() bool { return d.Name != nil || d.Image != nil }

// Published is what discovery says about the default: nil for none, else the
// value of AGENTD_DEFAULT_USER as it is, or the sealed ids. A record that
// cannot be used is published as the empty name, as an empty
// AGENTD_DEFAULT_USER is: in both a start without a user is refused, and null
// would say that it runs as the daemon's user.
func (d Default) Published() *string {
	switch {
	case d.Name != nil:
		return d.Name
	case d.Image == nil:
		return nil
	case d.Image.Err != nil:
		return new(string)
	}
	text := d.Image.String()
	return &text
}

// Resolve finds whom a start with this user and group runs as: the user first,
// then the group. A nil user or group was omitted. The files are read for this
// call. The error names the value that does not resolve.
func (a *Accounts) Resolve(user, group *api.NameOrID, d Default) (Principal, *api.Error) {
	var p Principal
	var bad *api.Error
	switch {
	case user == nil:
		p, bad = a.omitted(d)
	case user.IsName:
		p, bad = a.named(user.Name)
	default:
		p = a.numeric(user.ID)
	}
	if bad == nil && p.UID != nil && *p.UID == noID {
		bad = &api.Error{Code: api.UnknownUser, Detail: fmt.Sprintf("user: %d is no uid: %s", *p.UID, whyNoID)}
	}
	if bad != nil {
		return Principal{}, bad // ACCOUNT-11: a user that fails is answered before the group is looked at
	}
	if group != nil {
		gid, bad := a.group(group)
		if bad != nil {
			return Principal{}, bad
		}
		p.GID = &gid // over whatever the user brought
	}
	if p.GID != nil && *p.GID == noID {
		return Principal{}, &api.Error{Code: api.UnknownGroup, Detail: fmt.Sprintf("group: %d is no gid: %s", *p.GID, whyNoID)}
	}
	return p, nil
}

// noID is the one number of 32 bits that no user or group has.
//
// ACCOUNT-13: refused here, where the field can be named; the kernel refuses it
// as an argument of a call that changes two ids (POSIX.1-2017, setreuid).
const noID = ^uint32(0)

const whyNoID = "to the kernel it means to leave the id as it is; the largest is 4294967294"

// numeric is a user by number: the group stays the daemon's, whatever a row
// says, and the row gives only the variables.
func (a *Accounts) numeric(uid uint32) Principal {
	p := Principal{UID: &uid} // AGENTD-16: exactly this id, row or not
	if row, ok := first(a.users(), func(u User) bool { return u.UID == uid }); ok {
		p.Identity = row.Identity() // AGENTD-9: an account's variables come with its number, too
	}
	return p
}

// named is a user by name; digits that no row has for a name are a number.
func (a *Accounts) named(name string) (Principal, *api.Error) {
	// AGENTD-7: a name wins over the number that it may look like, because the
	// image decides what its names mean.
	if row, ok := first(a.users(), func(u User) bool { return u.Name == name }); ok {
		return row.principal(), nil
	}
	if uid, ok := digits(name); ok {
		return a.numeric(uid), nil // ACCOUNT-6: as the integer would be
	}
	// AGENTD-8: refused, since any other user would be one that nobody named.
	return Principal{}, &api.Error{Code: api.UnknownUser, Detail: fmt.Sprintf("user %s is neither a name in the passwd file nor a number of 32 bits", quote(name))}
}

// principal is a user whose row counts as a whole, its primary group included.
func (u User) principal() Principal {
	return Principal{UID: &u.UID, GID: &u.GID, Identity: u.Identity()}
}

// omitted is the user of a start that names none.
func (a *Accounts) omitted(d Default) (Principal, *api.Error) {
	if d.Name == nil {
		if d.Image == nil {
			return Principal{}, nil
		}
		return a.sealed(d.Image)
	}
	name, users := *d.Name, a.users()
	// ACCOUNT-1: looked up for this request, since the row may have come or gone.
	if row, ok := first(users, func(u User) bool { return u.Name == name }); ok {
		return row.principal(), nil
	}
	uid, isNumber := digits(name)
	if isNumber {
		if row, ok := first(users, func(u User) bool { return u.UID == uid }); ok {
			return row.principal(), nil
		}
	}
	// EXEC-38: never root in its place.
	detail := fmt.Sprintf("AGENTD_DEFAULT_USER is %s, and no row of the passwd file has this name; name a user in the request, or add the row to the image", quote(name))
	if isNumber {
		detail = fmt.Sprintf("AGENTD_DEFAULT_USER is %s, and a passwd row with that uid is required in the image; name a user in the request, or add the row", quote(name))
	}
	return Principal{}, &api.Error{Code: api.UnknownUser, Detail: detail}
}

// sealed is the image's own user.
func (a *Accounts) sealed(u *ImageUser) (Principal, *api.Error) {
	if u.Err != nil {
		// ACCOUNT-4: never root in its place.
		return Principal{}, &api.Error{Code: api.UnknownUser, Detail: fmt.Sprintf("AGENTD_PRESERVE_IMAGE_USER is set, and the record of the image user cannot be used: %v; name a user in the request, or build the image with the record", u.Err)}
	}
	p := a.numeric(u.UID)
	p.GID = &u.GID // ACCOUNT-3: both ids are the image's, and a row gives only the variables
	return p, nil
}

func (a *Accounts) group(group *api.NameOrID) (uint32, *api.Error) {
	if !group.IsName {
		return group.ID, nil
	}
	// AGENTD-7
	if row, ok := first(a.groups(), func(g Group) bool { return g.Name == group.Name }); ok {
		return row.GID, nil
	}
	if gid, ok := digits(group.Name); ok {
		return gid, nil
	}
	// AGENTD-8
	return 0, &api.Error{Code: api.UnknownGroup, Detail: fmt.Sprintf("group %s is neither a name in the group file nor a number of 32 bits", quote(group.Name))}
}

// digits reads a string that is a number and nothing else.
func digits(s string) (uint32, bool) { return number(s) }

// quote names a value in a refusal, cut to a length that an error can carry.
func quote(s string) string {
	const most = 256
	if len(s) > most {
		return fmt.Sprintf("%q…", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
