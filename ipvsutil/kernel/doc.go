// Package kernel carries the values of ipvsutil to the Linux kernel: virtual and
// real servers over generic netlink, addresses and routes over route netlink.
package kernel
