package health

// Family is an IP family. It indexes pairs such as Check.LocalReady.
type Family uint8

// The IP families.
const (
	IPv4 Family = iota
	IPv6
)

// String returns "IPv4" or "IPv6", as core/v1 IPFamily and the label ip_family have it.
func (f Family) String() string {
	if f == IPv6 {
		return "IPv6"
	}
	return "IPv4"
}
