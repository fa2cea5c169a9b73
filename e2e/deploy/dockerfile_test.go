//go:build peers

package deploy

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// stages are the Dockerfile's, each with its steps, as BuildKit's own parser has them.
func stages(t *testing.T) map[string][]string {
	t.Helper()
	text, err := render(t, "dockerfile", folder(t, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "stage "); ok {
			var from string
			name, from, _ = strings.Cut(rest, " ")
			line = "FROM " + from
		}
		found[name] = append(found[name], line)
	}
	return found
}

// step is the only step of a stage that begins so, without its beginning.
func step(t *testing.T, steps []string, begin string) string {
	t.Helper()
	found := ""
	for _, s := range steps {
		if rest, ok := strings.CutPrefix(s, begin); ok {
			if found != "" {
				t.Fatalf("two steps %q", begin)
			}
			found = rest
		}
	}
	if found == "" {
		t.Fatalf("no step %q in %q", begin, steps)
	}
	return found
}

// TestDockerfile does on this host what the building stages do, for both
// architectures: there is no engine here that could build the image itself.
func TestDockerfile(t *testing.T) {
	all := stages(t)
	if len(all) != 3 {
		t.Fatalf("stages %v", all)
	}
	program := strings.ReplaceAll(step(t, all["program"], "RUN CGO_ENABLED=0 "), "/out/", "$OUT/")
	root := strings.NewReplacer("/rootfs.sh", folder(t, "image", "rootfs.sh"), "/image", "$OUT/image").
		Replace(step(t, all["root"], "RUN "))
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		t.Run(arch, func(t *testing.T) {
			out := t.TempDir()
			for _, script := range []string{"export CGO_ENABLED=0; " + program, root} {
				cmd := exec.Command("sh", "-eu", "-c", script)
				cmd.Dir = filepath.Dir(folder(t))
				cmd.Env = append(os.Environ(), "OUT="+out, "TARGETARCH="+arch, "VERSION=v1.2.3")
				if text, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%s: %v\n%s", script, err, text)
				}
			}
			if err := CheckLibraries(filepath.Join(out, "image")); err != nil {
				t.Error(err)
			}
			for _, file := range []string{"kube-ipvs-proxy", "image/usr/sbin/xtables-nft-multi", "image/usr/sbin/xtables-legacy-multi", "image/bin/kmod"} {
				f, err := elf.Open(filepath.Join(out, file))
				if err != nil {
					t.Error(err)
					continue
				}
				if f.Machine != machine {
					t.Errorf("%s is for %v", file, f.Machine)
				}
				f.Close()
			}
			if names, err := needed(filepath.Join(out, "kube-ipvs-proxy")); err != nil || len(names) > 0 {
				t.Errorf("the program needs %q, %v: it is not static", names, err)
			}
		})
	}
}

// TestFinalImage: the last stage has what the others made and the container test uses.
func TestFinalImage(t *testing.T) {
	want := []string{
		"FROM scratch",
		"COPY --from=root /image/ /",
		"COPY --from=program /out/kube-ipvs-proxy /usr/bin/kube-ipvs-proxy",
		"ENV " + imagePath,
		`ENTRYPOINT ["` + Entrypoint + `"]`,
	}
	if diff := cmp.Diff(want, stages(t)[""]); diff != "" {
		t.Errorf("last stage (-want +got):\n%s", diff)
	}
}
