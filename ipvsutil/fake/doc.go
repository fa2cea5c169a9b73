// Package fake has doubles of the doors of ipvsutil that are as strict as the
// kernel: they pass the suites of package conformance, as the kernel's side does.
package fake
