package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// User is who a client is to the API server.
type User struct {
	Name   string
	Groups []string
}

// Admin may do everything.
var Admin = User{Name: "admin", Groups: []string{"system:masters"}}

// ServiceAccount is the user that the token of a ServiceAccount stands for: what is
// granted to the ServiceAccount is granted to it.
func ServiceAccount(namespace, name string) User {
	return User{
		Name:   "system:serviceaccount:" + namespace + ":" + name,
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
	}
}

// Config is a client configuration for a user on this host, without a limit of
// requests a second.
func (c *Cluster) Config(u User) (*rest.Config, error) {
	p, err := c.authority.client(u)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: c.Server(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData: encodeCert(c.authority.cert.Raw), CertData: p.cert, KeyData: p.key,
		},
		QPS: -1,
	}, nil
}

// Kubeconfig is the text of a kubeconfig file for a user that reaches the API
// server at the address server, like Server().
func (c *Cluster) Kubeconfig(u User, server string) ([]byte, error) {
	p, err := c.authority.client(u)
	if err != nil {
		return nil, err
	}
	type object map[string]any
	return json.MarshalIndent(object{ // JSON is YAML
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": "main", "cluster": object{
			"server": server, "certificate-authority-data": encodeCert(c.authority.cert.Raw),
		}}},
		"users": []object{{"name": "main", "user": object{
			"client-certificate-data": p.cert, "client-key-data": p.key,
		}}},
		"contexts":        []object{{"name": "main", "context": object{"cluster": "main", "user": "main"}}},
		"current-context": "main",
	}, "", " ")
}

// Grant lets a user do what the rules say, in all namespaces. It grants once for
// each user.
func (c *Cluster) Grant(ctx context.Context, u User, rules ...rbacv1.PolicyRule) error {
	name := strings.ReplaceAll(u.Name, ":", "-")
	meta := metav1.ObjectMeta{Name: name}
	rbac := c.client.RbacV1()
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}
	if _, err := rbac.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("role of %s: %w", u.Name, err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: u.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	if _, err := rbac.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("role binding of %s: %w", u.Name, err)
	}
	return nil
}

func httpClient(config *rest.Config) (*http.Client, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("client of the API server: %w", err)
	}
	return client, nil
}
