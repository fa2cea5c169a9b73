// Package house holds the rules of the layout as tests: who may import whom, what
// the pure packages may touch, how long a file and a function may be, and that what
// is exported is explained.
package house
