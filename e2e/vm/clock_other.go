//go:build !amd64

package main

func ticks() uint64 { return 0 }

const hasTicks = false
