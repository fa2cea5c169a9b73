// Package takeover asks what clients notice when another proxy hands a node over to this
// one, and back: loops of requests and held streams run meanwhile.
//
// The tests of the tag kernel take over from rules that a proxy would have left; those
// that need the tag peers too run the real kube-proxy, in each of its modes.
package takeover
