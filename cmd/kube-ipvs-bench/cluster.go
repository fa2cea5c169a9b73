package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
	"kube-ipvs-proxy/e2e/relay"
)

// realCluster is a real API server, in which Services are made for the time of a trial, in
// a namespace of their own.
type realCluster struct {
	config *rest.Config
	client *kubernetes.Clientset
	node   string
	others int
	trials int
}

// openCluster looks at the cluster of a kubeconfig.
func openCluster(ctx context.Context, kubeconfig string) (*realCluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1 // no limit
	c := &realCluster{config: config}
	if c.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, err
	}
	nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	if len(nodes.Items) == 0 {
		return nil, errors.New("the cluster has no Node, and a proxy needs one")
	}
	c.node = nodes.Items[0].Name
	services, err := c.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer || len(s.Spec.ExternalIPs) > 0 {
			return nil, fmt.Errorf("the Service %s/%s is reached from outside: take a cluster that has only ClusterIPs", s.Namespace, s.Name)
		}
		if s.Spec.ClusterIP != "" && s.Spec.ClusterIP != corev1.ClusterIPNone {
			c.others += len(s.Spec.Ports)
		}
	}
	return c, nil
}

// source is one for a trial.
func (c *realCluster) source(size world.Size) (source, *world.World) {
	c.trials++
	w := world.New(size, fmt.Sprintf("kube-ipvs-bench-%d-%d", os.Getpid(), c.trials), c.node)
	w.Others = c.others
	return &inCluster{realCluster: c, world: w}, w
}

// inCluster is a source in a cluster.
type inCluster struct {
	*realCluster
	world *world.World
	made  bool
}

// load makes the objects, several at a time. ClusterIPs are the server's to choose.
func (c *inCluster) load(ctx context.Context, w *world.World, l net.Listener) ([]byte, error) {
	c.made = true
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace()}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if err := each(len(w.Services), func(i int) error { return c.create(ctx, &w.Services[i]) }); err != nil {
		return nil, err
	}
	return c.relay(l)
}

// each does things for 0 to n-1, several at a time, and returns what failed first.
func each(n int, do func(i int) error) error {
	var group sync.WaitGroup
	numbers := make(chan int)
	failed := make(chan error, n)
	for range 16 {
		group.Go(func() {
			for i := range numbers {
				if err := do(i); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	close(failed)
	return <-failed
}

// create makes a Service, whose address it learns, and its slices.
func (c *inCluster) create(ctx context.Context, s *world.Service) error {
	o := s.Object()
	o.UID, o.ResourceVersion, o.Spec.ClusterIP, o.Spec.ClusterIPs = "", "", "", nil
	got, err := c.client.CoreV1().Services(s.Namespace).Create(ctx, o, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := s.SetIP(got.Spec.ClusterIP); err != nil {
		return err
	}
	return c.putEndpoints(ctx, *s)
}

func (c *inCluster) putEndpoints(ctx context.Context, s world.Service) error {
	client := c.client.DiscoveryV1().EndpointSlices(s.Namespace)
	for _, slice := range s.Slices() {
		slice.UID, slice.ResourceVersion = "", ""
		_, err := client.Update(ctx, slice, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			_, err = client.Create(ctx, slice, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *inCluster) add(ctx context.Context, w *world.World, endpoints int) (world.Service, error) {
	w.Add(endpoints)
	s := &w.Services[len(w.Services)-1]
	err := c.create(ctx, s)
	return *s, err
}

func (c *inCluster) remove(ctx context.Context, s world.Service) error {
	client := c.client.DiscoveryV1().EndpointSlices(s.Namespace)
	for _, slice := range s.Slices() {
		if err := client.Delete(ctx, slice.Name, metav1.DeleteOptions{}); err != nil {
			return err
		}
	}
	return c.client.CoreV1().Services(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
}

// relay carries connections from the node's loopback to the API server.
func (c *inCluster) relay(l net.Listener) ([]byte, error) {
	server, err := url.Parse(c.config.Host)
	if err != nil {
		return nil, err
	}
	target := server.Host
	if server.Port() == "" {
		target = net.JoinHostPort(server.Hostname(), "443")
	}
	go relay.Serve(l, target)
	access := clientcmdapi.NewConfig()
	tls := c.config.TLSClientConfig
	name := tls.ServerName
	if name == "" {
		name = server.Hostname()
	}
	access.Clusters["bench"] = &clientcmdapi.Cluster{Server: server.Scheme + "://" + l.Addr().String(), TLSServerName: name,
		CertificateAuthority: tls.CAFile, CertificateAuthorityData: tls.CAData, InsecureSkipTLSVerify: tls.Insecure}
	access.AuthInfos["bench"] = &clientcmdapi.AuthInfo{ClientCertificate: tls.CertFile, ClientCertificateData: tls.CertData,
		ClientKey: tls.KeyFile, ClientKeyData: tls.KeyData, Token: c.config.BearerToken, TokenFile: c.config.BearerTokenFile}
	access.Contexts["bench"] = &clientcmdapi.Context{Cluster: "bench", AuthInfo: "bench"}
	access.CurrentContext = "bench"
	return clientcmd.Write(*access)
}

// read is not known: the server does not tell.
func (c *inCluster) read() (time.Time, bool) { return time.Time{}, false }

func (c *inCluster) refused() []string { return nil }

// close deletes all that was made, also after an interruption.
func (c *inCluster) close() error {
	if !c.made {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	ns := c.world.Namespace()
	all, err := c.client.CoreV1().Services(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	err = each(len(all.Items), func(i int) error {
		return c.client.CoreV1().Services(ns).Delete(ctx, all.Items[i].Name, metav1.DeleteOptions{})
	})
	return errors.Join(err,
		c.client.DiscoveryV1().EndpointSlices(ns).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		c.client.CoreV1().Namespaces().Delete(ctx, ns, metav1.DeleteOptions{}))
}
