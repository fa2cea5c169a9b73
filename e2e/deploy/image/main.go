// Command image prepares on the host what the container test needs inside the machine,
// which has no network: runc, the image's root file system as the Dockerfile makes it,
// and the seccomp profile of container engines. They are kept in bin/image.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"kube-ipvs-proxy/e2e/deploy"
	"kube-ipvs-proxy/e2e/program"
)

// profiles is the module with the profile that engines call RuntimeDefault, and its
// checksum.
const (
	profiles   = "github.com/moby/profiles/seccomp@v0.3.0"
	profileSum = "h1:1vJ94fIWXz206DLWq7ddPD6qLP82N7351JI/9iGy3IY="
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := program.ModuleDir()
	if err != nil {
		return err
	}
	out := filepath.Join(dir, "bin", "image")
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	return errors.Join(
		installRunc(),
		makeRoot(filepath.Join(dir, "deploy", "image", "rootfs.sh"), out),
		fetchProfile(filepath.Join(out, deploy.ProfileFile)),
	)
}

// installRunc installs Debian's runc unless there is one.
func installRunc() error {
	if _, err := exec.LookPath("runc"); err == nil {
		return nil
	}
	fmt.Println("installing runc (apt)")
	install := func() error {
		return command("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=600", "install", "--no-install-recommends", "runc")
	}
	if install() == nil {
		return nil
	}
	return errors.Join(command("apt-get", "-q", "update"), install())
}

// makeRoot runs the script of the image unless the root of this very script is there.
func makeRoot(script, out string) error {
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	stamp, want := filepath.Join(out, "stamp"), hex.EncodeToString(sum[:])
	if have, err := os.ReadFile(stamp); err == nil && string(have) == want {
		return nil
	}
	fmt.Println("making the image's root file system (apt, nothing is installed)")
	root := filepath.Join(out, deploy.RootDir)
	if err := errors.Join(os.RemoveAll(stamp), os.RemoveAll(root)); err != nil {
		return err
	}
	if err := command("sh", script, root); err != nil {
		return err
	}
	if err := deploy.CheckLibraries(root); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(want), 0o644)
}

// fetchProfile takes the profile out of its module.
func fetchProfile(to string) error {
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	out, err := exec.Command("go", "mod", "download", "-json", profiles).Output()
	if err != nil {
		return fmt.Errorf("download %s: %w\n%s", profiles, err, out)
	}
	var module struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &module); err != nil {
		return err
	}
	if module.Sum != profileSum {
		return fmt.Errorf("%s has the checksum %s, want %s", profiles, module.Sum, profileSum)
	}
	text, err := os.ReadFile(filepath.Join(module.Dir, "default.json"))
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// command runs a program whose output is shown when it fails.
func command(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
