# Every target says what it installs (apt, as root) and leaves its files in bin/.
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
STATIC   := go build -buildvcs=false
# One way of compiling for the programs, their tests and the linters: what they import is
# compiled once. The race detector alone needs another one.
export CGO_ENABLED := 0
export GOFLAGS     := $(strip $(GOFLAGS) -trimpath)

# What "make bench" measures; "bin/kube-ipvs-bench --help" lists all that can be said.
BENCH    ?= --sizes 100x4,1000x4,5000x4,1000x50 --rounds 3

.PHONY: help build unit lint e2e peers test demo bench soak trial model
help: ## list the targets
	@sed -n 's/^\([a-z0-9]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## bin/kube-ipvs-proxy and what else is in cmd, static
	$(STATIC) -ldflags '-s -w -X main.version=$(VERSION)' -o bin/ ./cmd/...

unit: ## tests without root, network or a special kernel, with the race detector (needs gcc)
	@command -v gcc >/dev/null || { echo 'installing gcc libc6-dev (apt)'; apt-get -q update && apt-get -q -y install --no-install-recommends gcc libc6-dev; }
	CGO_ENABLED=1 go test -race -vet=off ./...

lint: ## gofmt, go vet, staticcheck and more (.golangci.yml)
	go run $(GOLANGCI) run ./...

e2e: build ## tests on a kernel with IPVS: this host's, or a QEMU machine's
	go run ./e2e/deploy/image
	go run ./e2e/run ./...

peers: build ## the real kube-proxy, kube-apiserver, kubectl and etcd, from source (minutes, once), and what needs them
	cd e2e/peers && go vet . && go test . && go run .
	go test -count=1 -tags peers -v ./e2e/cluster
	go test -count=1 -tags peers -run RealServer -v ./proxier/watch
	go test -count=1 -tags peers -run InCluster -v ./cmd/kube-ipvs-bench
	cd e2e/deploy/render && go vet .
	go test -count=1 -tags peers -timeout 40m -v ./e2e/deploy
	PROXY=api go run ./e2e/run -timeout 90m ./e2e/packets
	go run ./e2e/run -peers -v -timeout 60m ./e2e/takeover

test: lint unit e2e ## everything

demo: build ## three nodes, Services, requests and changes, on a kernel with IPVS
	$(STATIC) -o bin/ ./e2e/vm ./e2e/demo
	bin/vm --env BIN=$(CURDIR)/bin -- bin/demo

bench: build ## rule-sync time against kube-proxy's modes and the plain tools, into bench-results/ (hours; BENCH='--sizes 100x4 --rounds 1' for a part)
	$(STATIC) -o bin/ ./e2e/vm
	@mkdir -p bench-results
	proxy=$$(cd e2e/peers && go run . kube-proxy) && bin/vm --steady --timeout 0 --results bench-results -- bin/kube-ipvs-bench \
	  --ours $(CURDIR)/bin/kube-ipvs-proxy --kube-proxy $$proxy --results /results --note 'QEMU, one emulated CPU whose clock follows its instructions (--steady)' $(BENCH)

FOR   ?= 30m
SEEDS ?= 200
TRIAL ?= 100

soak: build ## churn under requests and streams, of which none may fail (FOR=30m, SOAK=flags); not part of test
	$(STATIC) -o bin/ ./e2e/vm ./e2e/soak
	bin/vm --timeout 24h --env BIN=$(CURDIR)/bin -- bin/soak -for $(FOR) $(SOAK)

trial: build ## 100 kills -9, 20 rolling updates and 50 flips under load (TRIAL=100, percent); test makes a few of each
	go run ./e2e/run -v -env TRIAL=$(TRIAL) -timeout 2h -run 'TestKilledAtAnyMoment|TestRollingUpdates|TestReadyFlips' ./e2e/packets

model: ## random lives against a fresh start (SEEDS=200); test makes 10
	go run ./e2e/run -v -env MODEL_SEEDS=$(SEEDS) -timeout 12h -run TestModel ./e2e/model
