// Package speed compares the time of a start with that of the plain tools, which
// put the same state into the kernel: ipvsadm -R, ip -batch and ipset restore.
package speed
