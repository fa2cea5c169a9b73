package main

import (
	"github.com/spf13/pflag"

	"kube-ipvs-proxy/proxier/config"
)

// addFlags defines the flags of run over raw, which holds their defaults.
func addFlags(f *pflag.FlagSet, raw *config.Raw) { raw.AddFlags(f) }

// configure turns the parsed flags, and the file that --config names, into options.
func configure(f *pflag.FlagSet, raw config.Raw) (config.Raw, config.Options, error) {
	resolved, err := raw.Resolve(f)
	if err != nil {
		return config.Raw{}, config.Options{}, exitError{2, err}
	}
	options, err := resolved.Validate()
	if err != nil {
		return config.Raw{}, config.Options{}, exitError{2, err}
	}
	return resolved, options, nil
}
