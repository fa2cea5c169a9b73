package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Programs are the paths of the executables.
type Programs struct{ Etcd, APIServer string }

// PeersVariable is the environment variable that names the folder of the programs
// where they can't be built, as inside a machine.
const PeersVariable = "PEERS"

// FindPrograms gives the programs of a cluster; see Peers.
func FindPrograms(ctx context.Context) (Programs, error) {
	paths, err := Peers(ctx, "etcd", "kube-apiserver")
	if err != nil {
		return Programs{}, err
	}
	return Programs{Etcd: paths[0], APIServer: paths[1]}, nil
}

// Peers gives the paths of programs that e2e/peers builds, by name: those in the
// folder of PeersVariable if it is set; else it builds what is missing, which takes
// minutes the first time and is told on stderr.
func Peers(ctx context.Context, names ...string) ([]string, error) {
	if dir := os.Getenv(PeersVariable); dir != "" {
		var paths []string
		for _, name := range names {
			path, err := exec.LookPath(filepath.Join(dir, name))
			if err != nil {
				return nil, fmt.Errorf("%s=%s: %w", PeersVariable, dir, err)
			}
			paths = append(paths, path)
		}
		return paths, nil
	}
	dir, err := peersModule(ctx)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", append([]string{"run", "."}, names...)...)
	cmd.Dir = dir
	cmd.Stderr = os.Stderr
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("build %s: %w", strings.Join(names, ", "), err)
	}
	paths := strings.Fields(out.String())
	if len(paths) != len(names) {
		return nil, fmt.Errorf("build %s: got %d paths: %v", strings.Join(names, ", "), len(paths), paths)
	}
	return paths, nil
}

// peersModule is the folder of e2e/peers in the module of the working directory.
func peersModule(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("not in the module's folder, and no " + PeersVariable + ": can't find e2e/peers")
	}
	return filepath.Join(filepath.Dir(file), "e2e", "peers"), nil
}
