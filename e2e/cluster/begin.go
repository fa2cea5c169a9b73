package cluster

import (
	"os"
	"path/filepath"
	"testing"
)

// Begin starts a cluster that ends with the test; what fails ends the test.
func Begin(t testing.TB) *Cluster {
	t.Helper()
	programs, err := FindPrograms(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, err := Start(t.Context(), programs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// KubeconfigFile writes the administrator's kubeconfig for clients on this host into a
// folder of the test.
func (c *Cluster) KubeconfigFile(t testing.TB) string {
	t.Helper()
	text, err := c.Kubeconfig(Admin, c.Server())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
