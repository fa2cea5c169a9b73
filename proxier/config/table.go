package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Group is a heading of the flags' help.
type Group string

// The groups, in the order of the help.
const (
	groupSource    Group = "Where the configuration and the objects come from"
	groupNode      Group = "This node"
	groupServices  Group = "Services"
	groupTraffic   Group = "Traffic of pods and masquerading"
	groupIPVS      Group = "IPVS"
	groupConntrack Group = "Connection tracking"
	groupObserve   Group = "Health, metrics and log"
	groupTasks     Group = "Instead of serving"
	groupIdle      Group = "Accepted for kube-proxy's sake, without effect here"
)

// Groups lists all groups in the order of the help.
func Groups() []Group {
	return []Group{groupSource, groupNode, groupServices, groupTraffic, groupIPVS, groupConntrack, groupObserve, groupTasks, groupIdle}
}

// option is one choice of the operator.
type option struct {
	group Group
	name  string // of the flag
	path  string // of the field in the file; empty: there is none
	usage string
	// beside: the flag counts beside --config, and wins.
	beside bool
	// live: a running process takes a new value over.
	live bool
	bind bind
}

// bind defines the flag of an option over the field of r, whose value is the default.
type bind func(f *pflag.FlagSet, o option, r *Raw)

// options are all choices: kube-proxy's, then our own, then those without effect.
var options = slices.Concat(kubeProxyOptions, ownOptions, idleOptions)

// groupKey is the annotation of a flag that names its group.
const groupKey = "group"

// AddFlags defines all flags over r, whose values are the defaults.
func (r *Raw) AddFlags(f *pflag.FlagSet) {
	for _, o := range options {
		o.bind(f, o, r)
		f.Lookup(o.name).Annotations = map[string][]string{groupKey: {string(o.group)}}
	}
}

// GroupOf returns the group of a flag that AddFlags made, empty for others.
func GroupOf(f *pflag.Flag) Group {
	if group := f.Annotations[groupKey]; len(group) == 1 {
		return Group(group[0])
	}
	return ""
}

// flagOf returns the flag of a field, such as "--ipvs-scheduler"; empty when there is none.
func flagOf(path string) string {
	for _, o := range options {
		if o.path == path && path != "" {
			return "--" + o.name
		}
	}
	return ""
}

func text(field func(*Raw) *string) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) { f.StringVar(field(r), o.name, *field(r), o.usage) }
}

func boolean(field func(*Raw) *bool) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) { f.BoolVar(field(r), o.name, *field(r), o.usage) }
}

func number(field func(*Raw) *int32) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) { f.Int32Var(field(r), o.name, *field(r), o.usage) }
}

func duration(field func(*Raw) *time.Duration) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) { f.DurationVar(field(r), o.name, *field(r), o.usage) }
}

func list(field func(*Raw) *[]string) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) { f.StringSliceVar(field(r), o.name, *field(r), o.usage) }
}

// value is for fields whose type has a flag of its own.
func value(field func(*Raw) pflag.Value) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) {
		shorthand := ""
		if len(o.name) == 1 {
			shorthand = o.name
		}
		f.VarP(field(r), o.name, shorthand, o.usage)
	}
}

// optional is a flag with three values: true, false and not given.
func optional(field func(*Raw) **bool) bind {
	return func(f *pflag.FlagSet, o option, r *Raw) {
		f.VarPF(optionalBool{field(r)}, o.name, "", o.usage).NoOptDefVal = "true"
	}
}

type optionalBool struct{ field **bool }

// String returns true, false, or nothing when it is not given.
func (b optionalBool) String() string {
	if b.field == nil || *b.field == nil {
		return ""
	}
	return strconv.FormatBool(**b.field)
}

// Set understands what strconv.ParseBool does.
func (b optionalBool) Set(text string) error {
	on, err := strconv.ParseBool(strings.TrimSpace(text))
	if err == nil {
		*b.field = &on
	}
	return err
}

// Type names the values in the help.
func (b optionalBool) Type() string { return "true|false" }
