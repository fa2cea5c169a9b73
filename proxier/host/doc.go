// Package host is the node the proxy runs on, apart from what Services need: its
// kernel settings and modules, its addresses and their changes. It writes nothing
// but the settings it is given and runs no program but modprobe.
package host
