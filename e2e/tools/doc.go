// Package tools tests the operator's commands (cleanup, verify, plan, list, explain,
// doctor) on a real kernel, on one node of the lab. Its tests have the build tag kernel.
package tools
