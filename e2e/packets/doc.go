// Package packets tests the proxy as its users see it: objects go in, packets go
// through three nodes, and the pods say who came. Its tests have the build tag
// kernel and the numbers of the conformance statements that they hold the proxy
// to; "on N" is always the proxy under test. They need root and a kernel with
// IPVS, and fail where they have none. With another proxy named in the environment
// (e2e/judge) they ask that one: what kube-proxy fails was wanted of us alone.
package packets
