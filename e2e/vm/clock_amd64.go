package main

// ticks reads the time-stamp counter.
func ticks() uint64

// hasTicks: this machine has the counter.
const hasTicks = true
