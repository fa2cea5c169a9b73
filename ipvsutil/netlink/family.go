package netlink

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// GenericHeader is the size of struct genlmsghdr, which every body of a generic
// netlink message begins with.
const GenericHeader = 4

// AppendGenericHeader appends the header of a generic netlink body.
func (a *Attributes) AppendGenericHeader(command, version uint8) {
	*a = append(*a, command, version, 0, 0)
}

// GenericFamily asks for the number of a generic netlink family; the socket must
// be one of NETLINK_GENERIC. The kernel loads the family's module when it can. A
// family that is not there gives fs.ErrNotExist (ENOENT). The number is never zero:
// requests to family zero would be acknowledged and do nothing.
func (s *Socket) GenericFamily(ctx context.Context, name string) (uint16, error) {
	var body Attributes
	body.AppendGenericHeader(unix.CTRL_CMD_GETFAMILY, 1)
	body.String(unix.CTRL_ATTR_FAMILY_NAME, name)
	replies, err := s.Do(ctx, Request{Type: unix.GENL_ID_CTRL, Body: body})
	if err != nil {
		return 0, fmt.Errorf("generic netlink family %s: %w", name, err)
	}
	for _, reply := range replies {
		for a, err := range Parse(reply[min(len(reply), GenericHeader):]) {
			if err != nil {
				return 0, fmt.Errorf("generic netlink family %s: %w", name, err)
			}
			if a.Type != unix.CTRL_ATTR_FAMILY_ID {
				continue
			}
			if id, err := a.U16(); err == nil && id != 0 {
				return id, nil
			}
		}
	}
	return 0, fmt.Errorf("generic netlink family %s: %w", name, unix.ENOENT)
}
