package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// benchService is a Service and its slice with four endpoints, as kubectl prints them.
func benchService(i int) string {
	s := fmt.Sprintf(`apiVersion: v1
kind: Service
metadata:
  name: svc-%[1]d
  namespace: bench
spec:
  type: ClusterIP
  clusterIP: 10.96.%[2]d.%[3]d
  clusterIPs:
  - 10.96.%[2]d.%[3]d
  ipFamilies:
  - IPv4
  ports:
  - name: http
    port: 80
    protocol: TCP
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: svc-%[1]d-abc
  namespace: bench
  labels:
    kubernetes.io/service-name: svc-%[1]d
addressType: IPv4
ports:
- name: http
  port: 8080
  protocol: TCP
endpoints:
`, i, i/250, i%250+1)
	for n := range 4 {
		s += fmt.Sprintf(`- addresses:
  - 10.244.%d.%d
  conditions:
    ready: true
    serving: true
    terminating: false
  nodeName: node-%d
`, i/250, i%250+1, n)
	}
	return s
}

// benchFolder writes 1,000 Services with 4 endpoints each.
func benchFolder(b *testing.B, oneFile bool) string {
	dir := b.TempDir()
	var all strings.Builder
	for i := range 1000 {
		text := benchService(i)
		if oneFile {
			all.WriteString(text + "---\n")
		} else if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("svc-%d.yaml", i)), []byte(text), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	if oneFile {
		if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(all.String()), 0o644); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

func BenchmarkRead1000(b *testing.B) {
	for _, oneFile := range []bool{false, true} {
		b.Run(fmt.Sprintf("oneFile=%v", oneFile), func(b *testing.B) {
			dir := benchFolder(b, oneFile)
			b.ReportAllocs()
			for b.Loop() {
				ctx, cancel := context.WithCancel(context.Background())
				m, err := NewManifests(ctx, dir, "node-1", func(p Problem) { b.Error(p) })
				if err != nil {
					b.Fatal(err)
				}
				<-m.Changed()
				if !m.Synced() || len(m.Names()) != 1000 {
					b.Fatal("not all was read")
				}
				cancel()
				<-m.done
			}
		})
	}
}

// BenchmarkChange is what one changed file costs beside 1,000 Services.
func BenchmarkChange(b *testing.B) {
	for _, oneFile := range []bool{false, true} {
		b.Run(fmt.Sprintf("oneFile=%v", oneFile), func(b *testing.B) {
			r := newReader(benchFolder(b, oneFile))
			x := newIndex("node-1")
			x.replace(r.everything(nil).files)
			name := "svc-7.yaml"
			if oneFile {
				name = "all.yaml"
			}
			data, err := os.ReadFile(filepath.Join(r.dir, name))
			if err != nil {
				b.Fatal(err)
			}
			i := 0
			for b.Loop() {
				i++
				b.StopTimer()
				text := strings.Replace(string(data), "- 10.244.0.8\n", fmt.Sprintf("- 10.244.9.%d\n", i%200+1), 1)
				if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
					b.Fatal(err)
				}
				clear(x.dirty)
				b.StartTimer()
				u, ok := r.some(map[string]bool{name: true})
				x.replace(u.files)
				if !ok || len(x.dirty) != 1 {
					b.Fatalf("dirty %v", x.dirty)
				}
			}
		})
	}
}
