# Everything a developer does, one target each: `make help`.
# The virtual environment is created when it is missing, and updated when the lock files change.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

PYTEST := $(BIN)/python -m pytest -p tests.support.control_plane -p tests.support.left_out
PARALLEL := -n 2 --dist loadgroup
# The programs of tests with the marker `chart`: kubectl builds overlays, actionlint checks workflows.
CHART_TOOLS := helm helm-docs kubectl promtool actionlint
# Tests that need nothing but Python and the programs of `make control-plane`; of these, the ones that
# `make test` runs, and those that need Python alone.
PLAIN := not browser and not chart and not e2e
USUAL := $(PLAIN) and not deep
FAST := not cluster and $(USUAL)

# Each process of the tests would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help

##@ Use

.PHONY: help
help: ## show this
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z0-9-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(READY) ## create .venv with the locked dependencies

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

$(READY): requirements/dev.txt pyproject.toml | $(BIN)/python
	@echo 'installing the locked packages into $(VENV): a minute or two, without output'
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Tools of a few targets, apart from what the scheduler needs.
TOOLS := build/tools/.ready

$(TOOLS): requirements/tools.txt | $(READY)
	$(BIN)/python -m venv build/tools
	build/tools/bin/python -m pip install --quiet --require-hashes -r requirements/tools.txt
	@touch $@

# A KUBECONFIG in the environment is ignored: the demonstration has its own cluster, and must not
# change another one.
.PHONY: run
run: setup ## show a preemption; STORY=budget|drain|undo; ONCE=1 ends by itself; KUBECONFIG=FILE schedules on that cluster
ifeq ($(origin KUBECONFIG),command line)
	$(BIN)/preemptive-scheduler run --kubeconfig '$(patsubst ~/%,$(HOME)/%,$(KUBECONFIG))' \
		--bind-address 127.0.0.1 --logging-format text
else
	@$(BIN)/python -m deploy.tools.demo $(if $(filter-out 0,$(ONCE)),--once) \
		$(if $(STORY),--story '$(STORY)')
endif

ENGINE ?= docker
VERSION = $(shell $(PYTHON) -B -c 'import scheduler; print(scheduler.__version__)')
IMAGE ?= preemptive-scheduler:$(VERSION)
# What the image is made of; it gets the time of their last commit.
CONTENT := Dockerfile deploy/tools/release/rootfs.py deploy/tools/release/sbom.py pyproject.toml requirements/build.txt requirements/runtime.txt scheduler
REVISION = $(shell git describe --always --dirty --abbrev=40 --exclude='*' 2> /dev/null || echo unknown)
LAST_CHANGE = git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ
EPOCH = $(shell $(LAST_CHANGE) --format=%ct -- $(CONTENT) 2> /dev/null)
CREATED = $(shell TZ=UTC $(LAST_CHANGE) --format=%cd -- $(CONTENT) 2> /dev/null)

, := ,
# BASE is an image with Python to build on, in place of that in the Dockerfile. REPOSITORY is the address
# of the sources, for a label. CA_BUNDLE and PIP_CONF are files for pip, where the network
# needs them: they are secrets of the build and not part of the image. FLAGS are for the engine.
.PHONY: image
image: ## build the container image; IMAGE=name:tag, ENGINE=docker|podman|buildah
	@command -v $(ENGINE) > /dev/null || \
		{ echo 'error: $(ENGINE) is not on PATH; choose ENGINE=docker|podman|buildah' >&2; exit 1; }
	DOCKER_BUILDKIT=1 $(ENGINE) build --file=Dockerfile --tag='$(IMAGE)' \
		--build-arg=VERSION='$(VERSION)' --build-arg=REVISION='$(REVISION)' \
		$(if $(EPOCH),--build-arg=SOURCE_DATE_EPOCH='$(EPOCH)' --build-arg=CREATED='$(CREATED)') \
		$(if $(REPOSITORY),--build-arg=SOURCE='$(REPOSITORY)') \
		$(if $(BASE),--build-arg=PYTHON_IMAGE='$(BASE)') \
		$(if $(CA_BUNDLE),--secret=id=cabundle$(,)src='$(CA_BUNDLE)') \
		$(if $(PIP_CONF),--secret=id=pipconf$(,)src='$(PIP_CONF)') \
		$(if $(filter %buildah,$(ENGINE)),--layers) $(FLAGS) .

.PHONY: image-base
image-base: ## build a base image with Python from Debian's packages, without an image registry
	@$(PYTHON) -m deploy.tools.release.image_base --flags='$(FLAGS)'

.PHONY: sbom
sbom: setup ## write the bill of materials without the base image (CycloneDX): build/sbom.cdx.json
	@mkdir -p build
	@$(BIN)/python -m deploy.tools.release.sbom --lock requirements/runtime.txt > build/sbom.cdx.json
	@echo build/sbom.cdx.json

# The image is not part of it: it needs an engine and the digest of its base. The release workflow
# builds, signs and publishes everything. TAG=v0.1.0 refuses a version that is not that of the tag.
.PHONY: release
release: setup ## build wheel, sdist, kubectl plugin, charts, bill of materials, checksums in build/release; TAG=, REGISTRY=, REPOSITORY=
	@$(BIN)/python -m deploy.tools.release.build --tag='$(TAG)' --registry='$(REGISTRY)' \
		--repository='$(REPOSITORY)'

##@ Check

.PHONY: fmt
fmt: setup ## format the code, and apply automatic fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: lint
lint: setup ## check format and lint rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

.PHONY: type
type: setup ## check types
	$(BIN)/mypy

.PHONY: imports
imports: setup ## check the layers of imports
	$(BIN)/lint-imports

# Its libraries and TypeScript come from npm, as package-lock.json pins them, once.
.PHONY: console-check
console-check: setup ## check the types of the console's page against docs/openapi.json; needs Node.js
	@$(BIN)/python -m deploy.tools.console.type_check

BUILD := $(BIN)/python -m deploy.tools.controlplane build
# Decisions and selectors are compared with each release of Kubernetes that can be followed.
.PHONY: control-plane
control-plane: setup ## get etcd, kube-apiserver and so on; each version is built once
	@$(BUILD) > /dev/null
	@$(BUILD) kube-scheduler > /dev/null
	@$(BUILD) --every-version scheduler-oracle cel-oracle > /dev/null

.PHONY: chart-tools
chart-tools: setup ## get helm, kubectl and so on; each version is built once
	@$(BUILD) $(CHART_TOOLS) > /dev/null

.PHONY: test
test: control-plane ## run the tests, also those on a real control plane; says at the end which other tests there are
	$(PYTEST) $(PARALLEL) -m '$(USUAL)'

.PHONY: test-fast
test-fast: setup ## run the tests that need no built programs
	$(PYTEST) $(PARALLEL) -m '$(FAST)'

.PHONY: deep
deep: control-plane ## run the random tests with all their seeds, and the slow measurements
	ALL_SEEDS=1 $(PYTEST) $(PARALLEL) -m 'deep or seeded'

.PHONY: chart
chart: control-plane chart-tools ## test the Helm charts: lint, schema, rendering, READMEs, alerts, installation
	$(PYTEST) $(PARALLEL) -m chart

# Chromium and the font of pictures come from packages of Debian; npm as well, where there is none.
BROWSER_PACKAGES := chromium chromium-driver fonts-inter fonts-dejavu-core
.PHONY: browser-packages
browser-packages: ## install what the tests and the check of the console need, with apt, as root
	@command -v chromedriver > /dev/null && command -v chromium > /dev/null && \
		command -v npm > /dev/null && test -d /usr/share/fonts/opentype/inter || \
		{ apt-get update -qq && apt-get install -qq -y --no-install-recommends $(BROWSER_PACKAGES) \
			$$(command -v npm > /dev/null || echo nodejs npm) > /dev/null; }

.PHONY: browser-check
browser-check: ## check that Chromium and its driver are there
	@command -v chromedriver > /dev/null && \
		{ command -v chromium || command -v chromium-browser; } > /dev/null || \
		{ echo 'error: chromium or chromedriver is not on PATH; as root: make browser-packages' >&2; exit 1; }

.PHONY: browser
browser: browser-check control-plane ## test the console in a real browser; SCREENSHOTS=1 writes docs/img/console-*.png
	$(PYTEST) $(PARALLEL) -m browser

.PHONY: e2e-packages
e2e-packages: setup ## install what `make e2e` needs, with apt, as root
	@$(BIN)/python -m deploy.tools.nodes packages

# Images, and logs of the last cluster, are in build/e2e.
.PHONY: e2e
e2e: setup ## test image and chart on two real nodes of this machine, as root; E2E=off skips it
ifeq ($(E2E),off)
	@echo 'E2E=off: the end-to-end tests are skipped'
else
	@$(BIN)/python -m deploy.tools.nodes check
	@$(BIN)/python -m deploy.tools.nodes build > /dev/null
	E2E_CLUSTER=nodes E2E_IMAGE=build/e2e/scheduler.tar $(PYTEST) tests/e2e
endif

.PHONY: kind
kind: setup ## run the same tests on kind, which needs Docker; KIND_NODE_IMAGE=...
	@$(BIN)/python -m deploy.tools.kind > /dev/null
	E2E_CLUSTER=kind E2E_IMAGE=build/e2e/scheduler.tar KIND_NODE_IMAGE='$(KIND_NODE_IMAGE)' \
		$(PYTEST) tests/e2e

FIDELITY = $(if $(FAMILIES), --families $(FAMILIES))$(if $(REFERENCE), --reference $(REFERENCE))
.PHONY: fidelity
fidelity: setup ## compare decisions with kube-scheduler's own code; SEEDS=0:2000, FAMILIES=A,B, REFERENCE=v1.37
	$(BIN)/python -m tests.oracle --seeds $(or $(SEEDS),0:2000)$(FIDELITY)

.PHONY: cel
cel: setup ## compare device selectors with Kubernetes' own package; REFERENCE=v1.37, EXPRESSIONS=100000, SEED=0
	$(BIN)/python -m tests.cel --reference $(or $(REFERENCE),v1.37) --expressions $(or $(EXPRESSIONS),100000) --seed $(or $(SEED),0)

.PHONY: transactions
transactions: setup ## execute preemptions under faults and kills; SEQUENCES=10000
	TRANSACTIONS=$(or $(SEQUENCES),10000) $(PYTEST) $(PARALLEL) -q tests/properties/test_transactions.py

.PHONY: cover
cover: setup ## show branches that the fast tests miss; deciding packages need 95 %
	$(BIN)/coverage run -m pytest -q -p tests.support.control_plane -m '$(FAST)'
	$(BIN)/coverage report --skip-covered --show-missing
	$(BIN)/coverage report --fail-under=95 --format=total \
		--include='scheduler/model/*,scheduler/config/*,scheduler/state/*,scheduler/framework/*,scheduler/core/*'

# --strict: a package that cannot be checked is a failure, so this target fails without the network,
# and where a mirror of the index does not describe each version (/pypi/NAME/VERSION/json).
SERVICE ?= pypi
.PHONY: audit
audit: $(TOOLS) ## find known vulnerabilities of the locked packages, so not part of CI; SERVICE=pypi|osv is asked
	build/tools/bin/pip-audit --strict --vulnerability-service=$(SERVICE) --disable-pip --require-hashes \
		$(patsubst %,--requirement=%,$(wildcard requirements/*.txt))

.PHONY: hadolint
hadolint: $(TOOLS) ## check the Dockerfile
	build/tools/bin/hadolint Dockerfile

.PHONY: workflows
workflows: $(TOOLS) ## check .github, .pre-commit-config.yaml and .devcontainer
	build/tools/bin/zizmor --offline --quiet --persona auditor --strict-collection .github
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
pre-commit: $(TOOLS) ## install git hooks: `make lint` before a commit, type and imports before a push
	build/tools/bin/pre-commit install

# The control plane of each version is built once, in some five minutes on two idle cores.
# docs/compatibility.md lists the tests that need a newer version.
KUBERNETES ?= $(shell sed -n 's|^require k8s.io/kubernetes ||p' deploy/tools/controlplane/go/kubernetes-*/go.mod)
.PHONY: compat
compat: control-plane ## run the integration tests on older API servers; KUBERNETES="v1.34.4 v1.35.4"
	@for version in $(KUBERNETES); do \
		echo "API server $$version"; \
		$(BIN)/python -m deploy.tools.controlplane build kube-apiserver kube-controller-manager \
			--version $$version > /dev/null && \
		KUBERNETES=$$version $(PYTEST) -q tests/integration || exit 1; \
	done

.PHONY: deflake
deflake: setup ## run the fast tests with ten hash seeds, until they fail
	@for seed in 0 1 2 3 4 5 6 7 8 9; do \
		echo "PYTHONHASHSEED=$$seed"; \
		PYTHONHASHSEED=$$seed $(PYTEST) $(PARALLEL) -q -m '$(FAST)' || exit 1; \
	done

# The last run has what `make test`, `deep`, `chart` and `browser` have, with the control planes of one
# run; missing tools are errors before it begins.
.PHONY: verify
verify: browser-check lint type imports console-check control-plane chart-tools ## run all checks but e2e, with two hash seeds
	PYTHONHASHSEED=1 ALL_SEEDS=1 $(PYTEST) $(PARALLEL) -m 'not cluster and $(PLAIN)'
	PYTHONHASHSEED=2 ALL_SEEDS=1 $(PYTEST) $(PARALLEL) -m 'not e2e'

##@ Maintain

# Measurements use the system's Python if it is new enough. Distributions build theirs with
# profile-guided optimisation, as the one in the image; other builds are often slower.
BENCH_PYTHON ?= $(or $(lastword $(wildcard /usr/bin/python3.1[1-9])),$(PYTHON))
BENCH_VENV := build/bench-python
BENCH := $(BENCH_VENV)/bin/python -m deploy.tools.bench

$(BENCH_VENV)/.ready: requirements/dev.txt | $(READY)
	$(BENCH_PYTHON) -m venv --without-pip $(BENCH_VENV)
	$(BIN)/python -m pip --python $(BENCH_VENV)/bin/python install --quiet --require-hashes \
		-r requirements/dev.txt
	@touch $@

# WORKLOADS: names, core, targets or all. Runs with a record in build/bench are not repeated.
SIZE ?= full
.PHONY: bench
bench: setup $(BENCH_VENV)/.ready ## compare with kube-scheduler on a real API server; WORKLOADS="...", RUNS=N, SIZE=small|full, REFERENCE=v1.36
	@$(BIN)/python -m deploy.tools.controlplane build etcd kube-apiserver > /dev/null
	@REFERENCE='$(REFERENCE)' $(BENCH) run --size '$(SIZE)' --workloads '$(WORKLOADS)' \
		$(if $(RUNS),--runs '$(RUNS)'); status=$$?; \
		test $$status -gt 1 || $(BENCH) report --size '$(SIZE)' && exit $$status

# py-spy reads the memory of the scheduler: as root, or where kernel.yama.ptrace_scope is 0.
.PHONY: profile
profile: $(TOOLS) $(BENCH_VENV)/.ready ## draw a flame graph of the scheduler; WORKLOAD=name, SIZE=small|full
	@$(BENCH) profile '$(or $(WORKLOAD),Basic)' --size '$(SIZE)'

.PHONY: bench-recorder
bench-recorder: setup $(BENCH_VENV)/.ready ## compare with and without the recorder in turns; WORKLOAD=name, SIZE=small|full, ROUNDS=5
	@$(BIN)/python -m deploy.tools.controlplane build etcd kube-apiserver > /dev/null
	@$(BENCH) recorder '$(or $(WORKLOAD),Basic)' --size '$(SIZE)' --rounds '$(or $(ROUNDS),5)'

# 150,000 pods of 11 kB need some 25 GiB of memory, most of it for etcd and the API server.
.PHONY: bench-lists
bench-lists: setup ## measure a start with many pods while etcd compacts; PODS=150000, WAY=pages|pages-then-stream|pages-then-pages
	@$(BIN)/python -m deploy.tools.controlplane build etcd kube-apiserver > /dev/null
	@$(BIN)/python -m deploy.tools.bench lists --pods '$(or $(PODS),150000)' --way '$(or $(WAY),pages)'

.PHONY: bench-core
bench-core: setup ## measure decisions without an API server; fails if one is above its budget
	$(BIN)/python -m tests.perf.bench_core

.PHONY: bench-memory
bench-memory: setup ## measure the memory of nodes and pods without an API server; NODES=5000, PODS=150000
	$(BIN)/python -m tests.perf.bench_memory --nodes $(or $(NODES),5000) --pods $(or $(PODS),150000)

.PHONY: golden
golden: setup ## regenerate files; git shows the changes
	$(BIN)/python -m deploy.tools.pages.metrics > docs/metrics.md
	$(BIN)/python -m deploy.tools.pages.configuration > docs/configuration.md
	$(BIN)/python -m deploy.tools.pages.diagrams
	$$($(BIN)/python -m deploy.tools.controlplane build helm-docs) --chart-search-root charts \
		--sort-values-order file --log-level warning

.PHONY: console
console: setup ## copy the libraries of the console's page from npm, as package-lock.json pins them
	@$(BIN)/python -m deploy.tools.console

DOCS_VENV := build/docs-python

$(DOCS_VENV)/.ready: requirements/docs.txt | $(READY)
	$(BIN)/python -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip install --quiet --require-hashes -r requirements/docs.txt
	@touch $@

.PHONY: docs
docs: setup $(DOCS_VENV)/.ready ## build the documentation site in build/site; broken links are errors
	@$(BIN)/python -m deploy.tools.pages.site build/site-pages
	@NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet --strict
	@echo build/site/index.html

.PHONY: lock
lock: $(TOOLS) ## pin the newest dependencies that pyproject.toml allows
	$(call compile,requirements/runtime.txt,pyproject.toml)
	$(call compile,requirements/client.txt,--group client --constraints requirements/runtime.txt)
	$(call compile,requirements/dev.txt,pyproject.toml --group dev requirements/build.in)
	$(call compile,requirements/build.txt,requirements/build.in)
	$(call compile,requirements/docs.txt,requirements/docs.in)
	$(call compile,requirements/tools.txt,requirements/tools.in)

compile = build/tools/bin/uv pip compile --quiet --universal --python-version 3.11 \
	--fork-strategy fewest --generate-hashes --no-emit-index-url --no-header --upgrade \
	--output-file $(1) $(2)

.PHONY: clean
clean: ## remove all generated files; binaries stay in the user's cache
	rm -rf $(VENV) build dist *.egg-info .coverage* htmlcov .hypothesis .*_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
