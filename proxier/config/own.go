package config

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OwnAPIVersion and OwnKind name the second document of a configuration file.
const (
	OwnAPIVersion = "kube-ipvs-proxy/v1alpha1"
	OwnKind       = "IPVSProxyConfiguration"
)

// IPVSProxyConfiguration holds what kube-proxy has no option for. A field that is
// not in the file keeps its default.
type IPVSProxyConfiguration struct {
	// Manifests is a folder of YAML files that takes the place of the API server.
	Manifests string `json:"manifests"`
	// ExternalAddressMode says how externalIPs and addresses of load balancers come
	// to this node: "capture" takes them port by port, "bind" binds them to
	// kube-ipvs0 as kube-proxy does.
	ExternalAddressMode string `json:"externalAddressMode"`
	// AllowExternalCIDRs bounds the externalIPs and addresses of load balancers that
	// are served; empty leaves the choice to the proxy.
	AllowExternalCIDRs []string `json:"allowExternalCIDRs"`
	// ClusterIPBinding says how ClusterIPs become local: "address" on kube-ipvs0, or
	// "route", which stays fast with many thousands of them.
	ClusterIPBinding string `json:"clusterIPBinding"`
	// NodePortRange is the API server's --service-node-port-range. Masquerading takes
	// its ports outside of it; empty: any port.
	NodePortRange string `json:"nodePortRange"`
	// AcceptInput accepts requests to Services in filter INPUT, ahead of the host's rules.
	AcceptInput bool `json:"acceptInput"`
	// DrainTimeout is how long a TCP endpoint that left may keep its connections; zero
	// ends them at once, a negative value never.
	DrainTimeout metav1.Duration `json:"drainTimeout"`
	// RefreshPeriod is the time in which everything in the kernel is read again and
	// compared; zero: only after a sign of damage.
	RefreshPeriod metav1.Duration `json:"refreshPeriod"`
	// IPVSRunEstimation is the sysctl net.ipv4.vs.run_estimation, whose timer costs CPU
	// with very many real servers; null leaves it as it is.
	IPVSRunEstimation *bool `json:"ipvsRunEstimation"`
	// IPTablesBackend is "auto", "nft" or "legacy".
	IPTablesBackend string `json:"iptablesBackend"`
	// TrafficMetrics is how many Services have traffic metrics of their own; zero: none.
	TrafficMetrics int32 `json:"trafficMetrics"`
	// StrictMode refuses a mode of kube-proxy other than ipvs.
	StrictMode bool `json:"strictMode"`
}

// ownDocument is the document that holds it.
type ownDocument struct {
	metav1.TypeMeta
	*IPVSProxyConfiguration
}

// ownDefaults are the values of an absent second document.
func ownDefaults() IPVSProxyConfiguration {
	return IPVSProxyConfiguration{
		ExternalAddressMode: "capture",
		ClusterIPBinding:    "address",
		NodePortRange:       "30000-32767",
		AcceptInput:         true,
		DrainTimeout:        metav1.Duration{Duration: 15 * time.Minute},
		RefreshPeriod:       metav1.Duration{Duration: 10 * time.Minute},
		IPTablesBackend:     "auto",
	}
}
