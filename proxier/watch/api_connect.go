package watch

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/flowcontrol"
)

// Connection says how to reach the API server, as clientConnection of
// KubeProxyConfiguration and the flag --master do.
type Connection struct {
	// Kubeconfig is a file. Without it and without Master, the pod's own service
	// account is used.
	Kubeconfig string
	// Master wins over the server of the kubeconfig. It, and the server of the
	// kubeconfig too, may be several addresses of one cluster with commas between
	// them: when one does not answer, the next is asked.
	Master string
	// ContentType is the encoding of what is sent and, when AcceptContentTypes is
	// empty, what is asked for; empty means protobuf.
	ContentType, AcceptContentTypes string
	// QPS and Burst limit the requests a second; zero means 5 and 10, as in kube-proxy,
	// and a negative QPS no limit.
	QPS   float32
	Burst int
	// UserAgent names this program to the API server; empty means kube-ipvs-proxy.
	UserAgent string
}

// kube-proxy's defaults of clientConnection.qps and clientConnection.burst.
const (
	defaultQPS   = 5
	defaultBurst = 10
)

const jsonContent = "application/json"

// Client reads from the API servers of one cluster, and writes Events.
type Client struct {
	core, discovery, events *rest.RESTClient
	servers                 *servers
	// pings: a connection that is dead and was not closed is found by the transport.
	pings bool
}

// Connect builds a client; it sends nothing yet. A kubeconfig that cannot be read or
// that is wrong is an error with the file's name.
func Connect(c Connection) (*Client, error) {
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	config.QPS, config.Burst = c.QPS, c.Burst
	config.ContentType, config.AcceptContentTypes = c.ContentType, c.AcceptContentTypes
	config.UserAgent = c.UserAgent
	return NewClient(config)
}

// load finds the configuration that c stands for.
func (c Connection) load() (*rest.Config, error) {
	if c.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err == nil {
			if c.Master != "" {
				config.Host = c.Master
			}
			return config, nil
		}
		if c.Master != "" {
			return &rest.Config{Host: c.Master}, nil
		}
		return nil, fmt.Errorf("no API server is known: neither kubeconfig nor --master nor --manifests is given, and this is no pod with a service account: %w", err)
	}
	if _, err := os.Stat(c.Kubeconfig); err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: c.Kubeconfig},
		&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: c.Master}}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", c.Kubeconfig, err)
	}
	return config, nil
}

// NewClient builds a client from a configuration, whose host may be several as in
// Connection. Fields that are zero get the defaults of Connection.
func NewClient(config *rest.Config) (*Client, error) {
	config = rest.CopyConfig(config)
	urls, err := serverURLs(config)
	if err != nil {
		return nil, err
	}
	fill(config)
	config.Host = urls[0].String()
	c := &Client{servers: newServers(urls), pings: urls[0].Scheme == "https"}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		c.servers.next = next
		return c.servers
	})
	config.WarningHandler = rest.NoWarnings{}
	config.NegotiatedSerializer, err = serializers()
	if err != nil {
		return nil, err
	}
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	if config.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	}
	transport, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connection to the API server: %w", err)
	}
	for _, group := range []struct {
		client **rest.RESTClient
		path   string
		gv     schema.GroupVersion
	}{
		{&c.core, "/api", corev1.SchemeGroupVersion},
		{&c.discovery, "/apis", discoveryv1.SchemeGroupVersion},
		{&c.events, "/apis", eventsv1.SchemeGroupVersion},
	} {
		of := rest.CopyConfig(config)
		of.APIPath, of.GroupVersion = group.path, &group.gv
		if group.client == &c.events { // many Events do not keep a watch waiting
			of.RateLimiter = nil
		}
		if *group.client, err = rest.RESTClientForConfigAndClient(of, transport); err != nil {
			return nil, fmt.Errorf("connection to the API server: %w", err)
		}
	}
	return c, nil
}

// fill sets the defaults of Connection.
func fill(config *rest.Config) {
	if config.ContentType == "" {
		config.ContentType = runtime.ContentTypeProtobuf
	}
	if config.AcceptContentTypes == "" {
		config.AcceptContentTypes = config.ContentType
		if config.ContentType != jsonContent {
			config.AcceptContentTypes += "," + jsonContent
		}
	}
	if config.UserAgent == "" {
		config.UserAgent = controllerName
	}
	if config.QPS == 0 {
		config.QPS = defaultQPS
	}
	if config.Burst <= 0 {
		config.Burst = defaultBurst
	}
}

// serializers know the few API groups that are used; the full set of client-go costs
// several MiB.
func serializers() (runtime.NegotiatedSerializer, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), eventsv1.AddToScheme(scheme))
	if err != nil {
		return nil, fmt.Errorf("types of the API: %w", err)
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return newLean(serializer.NewCodecFactory(scheme).WithoutConversion()), nil
}

// cut splits a list with commas and blanks.
func cut(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}
