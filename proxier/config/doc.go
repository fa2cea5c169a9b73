// Package config turns a configuration file and flags into one validated value.
//
// Raw is what the operator wrote, with the defaults filled in: kube-proxy's
// KubeProxyConfiguration (v1alpha1) and, as a second YAML document of the same file,
// this proxy's own IPVSProxyConfiguration. One table names every flag with the field
// that it sets; precedence, help, errors and the comparison of two configurations
// follow from it. Validate turns Raw into Options, or says everything that is wrong,
// before anything is touched.
package config
