package judge

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"

	"kube-ipvs-proxy/e2e/testbed"
)

// namespace is where deploy/base puts everything.
const namespace = "kube-system"

// base is the folder of deploy/base, from a folder two levels below the module's.
const base = "../../deploy/base"

// product is the program under test, with a token of its own ServiceAccount and the
// rights of deploy/base.
func (j *Lab) product(ctx context.Context) (*kind, error) {
	program, err := j.Product()
	if err != nil {
		return nil, err
	}
	token, err := account(ctx, j.client)
	if err != nil {
		return nil, fmt.Errorf("ServiceAccount of %s: %w", base, err)
	}
	kubeconfig := filepath.Join(j.dir, "product.kubeconfig")
	if err := writeKubeconfig(kubeconfig, j.config.CAData, token); err != nil {
		return nil, err
	}
	return &kind{name: "kube-ipvs-proxy", program: program, kubeconfig: kubeconfig, args: productArgs, graceful: true}, nil
}

// productArgs are the product's arguments on a node: those that every node has, then
// those of a test.
func productArgs(node, kubeconfig string, more []string) []string {
	return append([]string{
		"run", "--kubeconfig", kubeconfig, "--hostname-override", node, "--cluster-cidr", testbed.ClusterCIDR,
	}, more...)
}

// account makes the ServiceAccount with its rights, and gives a token of it.
func account(ctx context.Context, client kubernetes.Interface) (string, error) {
	var sa corev1.ServiceAccount
	if err := readBase("serviceaccount.yaml", &sa); err != nil {
		return "", err
	}
	var role rbacv1.ClusterRole
	var binding rbacv1.ClusterRoleBinding
	if err := readBase("rbac.yaml", &role, &binding); err != nil {
		return "", err
	}
	accounts := client.CoreV1().ServiceAccounts(namespace)
	if _, err := accounts.Create(ctx, &sa, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	if _, err := client.RbacV1().ClusterRoles().Create(ctx, &role, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, &binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return "", err
	}
	const day = 24 * 60 * 60
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(day))}}
	answer, err := accounts.CreateToken(ctx, sa.Name, request, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return answer.Status.Token, nil
}

// readBase reads the objects of one file of deploy/base, in their order.
func readBase(file string, objects ...any) error {
	f, err := os.Open(filepath.Join(base, file))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	documents := yaml.NewYAMLToJSONDecoder(f)
	for _, o := range objects {
		if err := documents.Decode(o); err != nil {
			return fmt.Errorf("%s: %T: %w", file, o, err)
		}
	}
	return nil
}

// writeKubeconfig writes a kubeconfig for the relay on a node.
func writeKubeconfig(path string, ca []byte, token string) error {
	type object map[string]any
	text, err := json.MarshalIndent(object{ // JSON is YAML
		"apiVersion": "v1",
		"kind":       "Config",
		"clusters": []object{{"name": "main", "cluster": object{
			"server": "https://" + relayAddr, "certificate-authority-data": ca,
		}}},
		"users":           []object{{"name": "main", "user": object{"token": token}}},
		"contexts":        []object{{"name": "main", "context": object{"cluster": "main", "user": "main"}}},
		"current-context": "main",
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
