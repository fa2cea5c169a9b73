package ipvsutil

// Schedulers are the names that Linux has known (net/netfilter/ipvs/ip_vs_*.c). A
// kernel need not have all of them, and a newer one may have more.
var Schedulers = [...]string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "fo", "ovf", "mh", "twos"}
