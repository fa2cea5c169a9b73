package config

import (
	"net"
	"net/netip"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	logsapi "k8s.io/component-base/logs/api/v1"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// The ports of kube-proxy.
const (
	healthPort  = 10256
	metricsPort = 10249
)

// KubeProxyKind is the kind of kube-proxy's document of a configuration file.
const KubeProxyKind = "KubeProxyConfiguration"

// setDefaults fills the fields that are absent or zero with kube-proxy's defaults: a
// file of kubeadm writes zero or null for "default".
func setDefaults(c *kubeproxy.KubeProxyConfiguration) {
	c.APIVersion, c.Kind = kubeproxy.SchemeGroupVersion.String(), KubeProxyKind
	orDefault(&c.BindAddress, "0.0.0.0")
	everywhere, here := hosts(c.BindAddress)
	orDefault(&c.HealthzBindAddress, everywhere.String())
	orDefault(&c.MetricsBindAddress, here.String())
	c.HealthzBindAddress = withPort(c.HealthzBindAddress, healthPort)
	c.MetricsBindAddress = withPort(c.MetricsBindAddress, metricsPort)
	orDefault(&c.ClientConnection.ContentType, "application/vnd.kubernetes.protobuf")
	orDefault(&c.ClientConnection.QPS, 5)
	orDefault(&c.ClientConnection.Burst, 10)
	logsapi.SetRecommendedLoggingConfiguration(&c.Logging)

	pointer(&c.IPTables.MasqueradeBit, 14)
	pointer(&c.IPTables.LocalhostNodePorts, true)
	period(&c.IPTables.SyncPeriod, 30*time.Second)
	period(&c.IPTables.MinSyncPeriod, time.Second)
	period(&c.IPVS.SyncPeriod, 30*time.Second)
	pointer(&c.NFTables.MasqueradeBit, 14)
	period(&c.NFTables.SyncPeriod, 30*time.Second)
	period(&c.NFTables.MinSyncPeriod, time.Second)

	orDefault(&c.DetectLocalMode, kubeproxy.LocalMode(ClusterCIDR))
	pointer(&c.OOMScoreAdj, -999)
	pointer(&c.Conntrack.MaxPerCore, 32*1024)
	pointer(&c.Conntrack.Min, 128*1024)
	pointer(&c.Conntrack.TCPEstablishedTimeout, metav1.Duration{Duration: 24 * time.Hour})
	pointer(&c.Conntrack.TCPCloseWaitTimeout, metav1.Duration{Duration: time.Hour})
	period(&c.ConfigSyncPeriod, 15*time.Minute)
}

// hosts are the default addresses of the health and the metrics server, which have
// the family of the bind address.
func hosts(bindAddress string) (everywhere, here netip.Addr) {
	if bind, err := netip.ParseAddr(bindAddress); err == nil && bind.Is6() && !bind.Is4In6() {
		return netip.IPv6Unspecified(), netip.IPv6Loopback()
	}
	return netip.IPv4Unspecified(), netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// withPort appends the port to a bare IP address; other text stays as it is, and
// validation judges it.
func withPort(address string, port int32) string {
	bare := address
	if n := len(bare); n > 1 && bare[0] == '[' && bare[n-1] == ']' {
		bare = bare[1 : n-1]
	}
	if _, err := netip.ParseAddr(bare); err == nil {
		return net.JoinHostPort(bare, strconv.Itoa(int(port)))
	}
	return address
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func pointer[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func period(field *metav1.Duration, value time.Duration) { orDefault(&field.Duration, value) }
