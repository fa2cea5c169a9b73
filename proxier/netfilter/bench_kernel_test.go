//go:build kernel

package netfilter

import "testing"

// benchmarkBackends measures both families together, each in a fresh namespace.
func benchmarkBackends(b *testing.B, once func(b *testing.B, h *host)) {
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		b.Run(string(backend), func(b *testing.B) {
			newNamespace(b)
			once(b, newHost(b, backend))
		})
	}
}

// BenchmarkEnsureFromNothing is a start on a fresh host, with its two programs for
// each family before and one after.
func BenchmarkEnsureFromNothing(b *testing.B) {
	benchmarkBackends(b, func(b *testing.B, h *host) {
		r := h.rules()
		for b.Loop() {
			h.ensure(r, true)
			b.StopTimer()
			h.remove(r, nil)
			b.StartTimer()
		}
	})
}

// BenchmarkCheck is a look at rules that are right.
func BenchmarkCheck(b *testing.B) {
	benchmarkBackends(b, func(b *testing.B, h *host) {
		r := h.ensured()
		for b.Loop() {
			h.wantRight(r)
		}
	})
}

// BenchmarkWriteAlone is what the restore of one family takes.
func BenchmarkWriteAlone(b *testing.B) {
	benchmarkBackends(b, func(b *testing.B, h *host) {
		f := h.ensured().families[0]
		for b.Loop() {
			if err := f.programs.write(b.Context(), f.want.input(difference{})); err != nil {
				b.Fatal(err)
			}
		}
	})
}
