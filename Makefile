# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Everything that they need beside Go, git and a
# C library's headers is built from pinned sources by `make tools`.

SHELL      := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
MODULE  := github.com/sedna-io/containerd-shim-sedna
LDFLAGS := -s -w -X $(MODULE)/internal/version.Version=$(VERSION)
GOBUILD := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'

# One folder below test/tools for each foreign program, with a go.mod of its own. Kubernetes is
# built by `make e2e` alone: it takes longer than all the others.
TOOLS := runsc containerd crictl cni versitygw
# Other versions of containerd that the shim is tested on.
CONTAINERDS := 1.7 2.1
STAMP  = bin/tools/.$(1).stamp

PREFIX ?= /usr/local
TEST   ?= ./...
FUZZTIME ?= 30s
E2EFLAGS ?=
ROUNDS ?= 200
SEED   ?=

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-19s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build both binaries into bin/
	@mkdir -p bin
	$(GOBUILD) -o bin/ ./cmd/...

.PHONY: install
install: build ## Install both binaries into PREFIX/bin
	install -D -t $(DESTDIR)$(PREFIX)/bin bin/containerd-shim-sedna-v1 bin/sedna-storage

.PHONY: tools
tools: $(foreach t,$(TOOLS),$(call STAMP,$(t))) ## Build runsc, containerd, CNI plugins and an S3 server into bin/tools

bin/tools/.%.stamp: test/tools/%/go.mod test/tools/%/go.sum test/tools/build
	@test/tools/build $* bin/tools
	@touch $@

bin/tools/busybox: test/conformance/busybox
	@test/conformance/busybox $@

CONFORMANCE = go test ./test/conformance -count=1 -timeout 30m -v

.PHONY: conformance
conformance: build tools $(call STAMP,critest) bin/tools/busybox ## Run the CRI's suite and compare with test/conformance/results.tsv
	$(CONFORMANCE) -shim sedna

.PHONY: conformance-update
conformance-update: build tools $(call STAMP,critest) bin/tools/busybox ## Run it with ours and with gVisor's own shim, and write the table anew
	$(CONFORMANCE) -run Critest -shim runsc -update
	$(CONFORMANCE) -run Critest -shim sedna -update
	go test ./test/conformance -count=1 -update

.PHONY: demo
demo: build tools ## Start a pod with its model on real parts, and show it
	go run ./test/demo

.PHONY: test
test: build tools ## Run all tests; those that need root say so when they skip
	go test -timeout 20m $(TEST)

.PHONY: e2e
e2e: tools $(call STAMP,kubernetes) ## Run the tests on a real Kubernetes, which is built once (E2EFLAGS='-run Job -v')
	cd test/e2e && go test -count=1 -timeout 25m -parallel 4 $(E2EFLAGS) .

.PHONY: soak
soak: build tools ## Kill shim, worker, runsc or containerd at random in ROUNDS lives of a pod (SEED repeats a run)
	SEDNA_TEST_ROUNDS=$(ROUNDS) SEDNA_TEST_SEED=$(SEED) go test -v -count 1 -timeout 120m -run TestRandomKillsLeaveNothing ./test/integration

.PHONY: test-cgroup2
test-cgroup2: tools ## Run the worker's tests and a pod on control groups of version 2, in a small emulated machine
	test/cgroup2/run bin/vm

.PHONY: tools-containerd
tools-containerd: $(foreach v,$(CONTAINERDS),$(call STAMP,containerd-$(v))) ## Build the other versions of containerd

.PHONY: test-containerd
test-containerd: build tools tools-containerd ## Run the integration tests on the other versions of containerd
	for v in $(CONTAINERDS); do \
	  echo "=== containerd $$v"; \
	  SEDNA_CONTAINERD=$$v go test -count=1 -timeout 30m $(SMOKE) ./test/integration; \
	done

.PHONY: smoke-containerd
smoke-containerd: SMOKE = -run 'PlainPod|StartsWithTheFilesOfAnS3|RuntimeClass|Untrusted|DeployFolder|ShimKilled|TestStart'
smoke-containerd: test-containerd ## Run a few of them

.PHONY: kind
kind: ## Run pods in a node of kind (needs Docker, kind and kubectl)
	test/kind/run

.PHONY: race
race: ## Run the unit tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 go test -race -timeout 20m $$(go list ./... | grep -v /test/)

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME each
	@test/fuzz $(FUZZTIME)

.PHONY: bench-fetch
bench-fetch: $(call STAMP,versitygw) $(call STAMP,s5cmd) ## Race `sedna-storage fetch` with curl, aria2c and s5cmd
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench/fetch

.PHONY: bench
bench: build tools $(call STAMP,s5cmd) ## Run the benchmarks that docs/performance.md quotes
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m ./test/bench/...

.PHONY: bench-load
bench-load: build tools ## Start 100 pods in a row and 20 at once, ours and gVisor's
	go test -run '^$$' -bench . -benchtime 1x -timeout 60m -v ./test/bench/load

.PHONY: lint
lint: $(call STAMP,golangci-lint) ## Check format and style
	@out=$$(bin/tools/gofumpt -l cmd internal shim storage volumes test); \
	  if [ -n "$$out" ]; then echo "gofumpt would change:" $$out; exit 1; fi
	bin/tools/golangci-lint run
	cd test/e2e && ../../bin/tools/golangci-lint run

.PHONY: fmt
fmt: $(call STAMP,golangci-lint) ## Format the code
	bin/tools/gofumpt -w cmd internal shim storage volumes test

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
