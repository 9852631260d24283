# The README's two commands are `make demo` and `make test`; everything else is for developers.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Compiled modules are kept: without them each of some hundred processes compiles six hundred modules anew.
unexport PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help

.PHONY: help
help: ## Shows this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

$(STAMP): requirements.lock protocol/pyproject.toml service/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Slackwater needs Python >= 3.11; set PYTHON=/path/to/python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e protocol -e service
	$(BIN)/python -m compileall -q protocol/src service/src # an editable install compiles nothing, and some environments forbid it later
	@touch $@

.PHONY: install
install: $(STAMP) ## Makes the virtual environment from the lock file

.PHONY: demo
demo: $(STAMP) ## A sandbox cluster with Slackwater and a small workload (CONTROL_PLANE=real: a real one); Ctrl-C ends it
	$(BIN)/$(if $(filter real,$(CONTROL_PLANE)),python -m tests.support.controlplane.demo $(KUBERNETES_FLAG),slackwater demo) $(DEMO_ARGS)

given = $(filter command environment,$(firstword $(origin $(1))))

# tests/stages/plan.py says which stages `test` and `check` have, and which of them run side by side.
.PHONY: test
test: $(STAMP) ## Passes all tests (builds the real control plane once; output in tests/output/stages/); TESTS="tests/helm" passes those
	$(BIN)/python -m $(if $(TESTS),pytest $(TESTS),tests.stages test)

.PHONY: check
check: $(STAMP) ## Types, lint, import contracts, all unit tests and laws that take no long time, side by side
	$(BIN)/python -m tests.stages check

.PHONY: lint
lint: $(STAMP) ## Lint, formatting, import contracts, types; FIX=1 mends what can be mended instead
ifdef FIX
	$(BIN)/ruff check --fix . ; $(BIN)/ruff format .
else
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --config .importlinter
	$(BIN)/python -m tests.stages.typecheck
endif

QUICK_TESTS := tests/unit tests/laws tests/scenarios tests/museum tests/providers
.PHONY: unit
unit: $(STAMP) ## Tests that need neither a control plane nor another program, without those that take long; SLOW=1: with them
	$(BIN)/python -m pytest -n auto --dist worksteal $(if $(SLOW),,--without-slow) $(QUICK_TESTS)

BROWSER_STAMP := $(VENV)/.browser
$(BROWSER_STAMP): requirements-browser.lock $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-browser.lock
	@touch $@

.PHONY: browser
browser: $(BROWSER_STAMP) ## Tests of the dashboard in headless Chromium (Debian package `chromium`); PICTURES=1 renews those of docs/dashboard.md
	@command -v $${CHROMIUM:-chromium} > /dev/null || { echo "make browser needs the browser: apt-get install chromium, or set CHROMIUM=/path/to/it" >&2; exit 1; }
	$(BIN)/python -m pytest -s tests/browser
ifdef PICTURES
	for view in overview nodes pending groups drains preemptions migrations slack timeline why; do cp tests/output/dashboard/$$view-light-1440-10.png docs/dashboard/$$view-light.png; done
	cp tests/output/dashboard/overview-dark-1440-10.png docs/dashboard/overview-dark.png
endif

# KUBERNETES=1.35.4 chooses another version than the default one for `controlplane`, `cluster`, `oracle`, `canary` and the real demo.
KUBERNETES ?=
KUBERNETES_FLAG = $(if $(KUBERNETES),--kubernetes $(KUBERNETES))
export SLACKWATER_TEST_KUBERNETES = $(KUBERNETES)
.PHONY: controlplane
controlplane: $(STAMP) ## Builds the real control plane into the cache (KUBERNETES=1.35.4: of another version)
	$(BIN)/python -m tests.support.controlplane $(KUBERNETES_FLAG)

# Tests on a control plane mostly wait: more of them at a time than there are cores. Each worker has a control plane of its own.
CLUSTER_WORKERS ?= 2
ASKED := tests/output/cluster/asked
# What docs/versions.md says of every version: the main job, preemption, scale-up and drain.
MATRIX_TESTS := tests/cluster/test_binding.py tests/cluster/test_preemption.py tests/cluster/test_own_preemption.py \
  tests/cluster/test_node_choice.py tests/cluster/test_scale_up.py tests/cluster/controllers/test_scale_down.py
FRESH_TESTS := tests/cluster/test_crashes.py tests/cluster/test_nearly_full.py tests/cluster/test_reflector.py
ALONE = $(BIN)/python -m pytest -s
DRAINS ?= 5,1
SIZE = $(or $(NODES),500),$(or $(PODS),20000)
.PHONY: cluster
cluster: controlplane ## Tests on the real control plane. TESTS=...: some; MATRIX=1: those of docs/versions.md; FRESH=1: with fresh seeds; SCALE_UP=1, SCALE_DOWN=1 (DRAINS=5,1 at a time): one, with NODES and PODS; KILLS=6, NODE_CHOICE=10000 (pods): one, at this size; OLDER=v0.1.0: upgrade from that version and back
ifdef KILLS
	SLACKWATER_TEST_FRESH=1 SLACKWATER_TEST_KILLS=$(KILLS) $(ALONE) tests/cluster/test_vertical.py
else ifdef SCALE_UP
	SLACKWATER_TEST_SCALE_UP=$(SIZE) $(ALONE) tests/cluster/test_scale_up.py -k just_the_nodes
else ifdef SCALE_DOWN
	SLACKWATER_TEST_SCALE_DOWN=$(SIZE),$(DRAINS) $(ALONE) tests/cluster/controllers/test_scale_down.py
else ifdef NODE_CHOICE
	NODE_CHOICE_PODS=$(NODE_CHOICE) $(ALONE) tests/cluster/test_node_choice.py -k bound_where_a_node_was_chosen
else ifdef OLDER
	SLACKWATER_TEST_OLDER=$(OLDER) $(ALONE) tests/cluster/test_upgrade.py
else ifdef MATRIX
	$(BIN)/python -m pytest $(MATRIX_TESTS)
else ifdef FRESH
	SLACKWATER_TEST_FRESH=1 $(BIN)/python -m pytest -n $(CLUSTER_WORKERS) --dist loadfile $(FRESH_TESTS)
else
	rm -rf $(ASKED)
	SLACKWATER_TEST_ASKED=$(CURDIR)/$(ASKED) $(BIN)/python -m pytest -n $(CLUSTER_WORKERS) --dist worksteal \
	  $(or $(TESTS),tests/controlplane tests/cluster --ignore tests/cluster/test_rights.py)
	$(if $(TESTS),,SLACKWATER_TEST_ASKED=$(CURDIR)/$(ASKED) $(BIN)/python -m pytest tests/cluster/test_rights.py)
endif

.PHONY: canary
canary: $(STAMP) ## Says what a version of Kubernetes does otherwise than the newest known one (KUBERNETES=1.37.3, also an alpha)
	$(BIN)/python -m tests.canary $(KUBERNETES_FLAG) $(CANARY_ARGS)

DURATION ?= 180s
.PHONY: faults
faults: $(STAMP) ## Deterministic simulation with faults, for DURATION; SEED=n plays that one; BREAK=<mechanism> (all; list: names them); QUICK=1: thirty seeds that never change, and each mechanism once
ifdef QUICK
	$(BIN)/python -m tests.faults --seed 1 --seeds 30
	$(BIN)/python -m tests.faults --break all
else
	@$(BIN)/python -m tests.faults $(if $(call given,SEED),--seed $(SEED) $(if $(call given,DURATION),--duration $(DURATION)),--duration $(DURATION)) \
	$(if $(BREAK),--break $(BREAK)) $(FAULTS_ARGS)
endif

.PHONY: loads
loads: $(STAMP) ## The autoscaler under forty load shapes for HOURS (12 unless given) of virtual time each; SEED=n; ONLY=wave chooses some
	@$(BIN)/python -m tests.loads --verbose --seed $(if $(call given,SEED),$(SEED),1) --hours $(if $(call given,HOURS),$(HOURS),12) --only "$(ONLY)"

.PHONY: laws
laws: $(STAMP) ## All property tests on fresh examples; TESTS=tests/slos SEED=n: what a start-time SLO costs; TESTS=tests/laws/explain CASES=10000: so many clusters for each law
ifdef TESTS
	SLACKWATER_TEST_FRESH=1 SLACKWATER_SLO_SEED=$(if $(call given,SEED),$(SEED)) SLACKWATER_EXPLAIN_CASES=$(if $(call given,CASES),$(CASES),10000) \
	  $(BIN)/python -m pytest --timeout 7200 $(if $(call given,CASES),-n auto --hypothesis-show-statistics,-s -n0) $(TESTS)
else
	SLACKWATER_TEST_FRESH=1 $(BIN)/python -m pytest -n auto -m hypothesis $(QUICK_TESTS)
	SLACKWATER_TEST_FRESH=1 $(BIN)/python -m pytest tests/laws/test_start_time_slo_laws.py tests/laws/test_simulate_laws.py tests/scenarios/test_two_replicas.py
endif

.PHONY: soak
soak: controlplane ## What is long and random, with fresh seeds, for DURATION (1h unless given): faults, laws, fuzz, oracle, slos, chaos, kills
	$(BIN)/python -m tests.stages.soak $(if $(call given,DURATION),$(DURATION),1h)

.PHONY: flakes
flakes: controlplane ## Which tests fail how often in N runs (20 unless given); TESTS="tests/cluster/test_x.py -n 3" chooses some
	$(BIN)/python -m tests.stages.flakes $(if $(call given,N),$(N),20) $(TESTS)

.PHONY: chaos
chaos: controlplane ## A real control plane, piece after piece killed or paused at random, for DURATION (10m unless given); SEED=n
	SLACKWATER_TEST_FRESH=1 SLACKWATER_TEST_CHAOS=$(if $(call given,DURATION),$(DURATION),10m) SLACKWATER_TEST_CHAOS_SEED=$(if $(call given,SEED),$(SEED)) \
	  $(BIN)/python -m pytest -s tests/cluster/controllers/test_chaos.py

N ?= 10000
SEED ?= 1
.PHONY: oracle
oracle: $(STAMP) ## Our predicates and scale-down plans against kube-scheduler's own, on N generated clusters of SEED; ALL=1: all versions and modes, in batches, going on where it was stopped
ifdef ALL
	$(BIN)/python -m tests.oracle.batches --clusters $(N) --seed $(SEED) --all --log tests/output/oracle.jsonl $(KUBERNETES_FLAG)
else
	$(BIN)/python -m tests.oracle --clusters $(N) --seed $(SEED) $(KUBERNETES_FLAG)
	$(BIN)/python -m tests.oracle --clusters $(N) --seed $(SEED) --sequential $(KUBERNETES_FLAG)
	$(BIN)/python -m tests.oracle --clusters $(N) --seed $(SEED) --scores $(KUBERNETES_FLAG)
	$(BIN)/python -m tests.oracle.drains --clusters $(N) --seed $(SEED)
endif

CASES ?= 10000
.PHONY: fuzz
fuzz: $(STAMP) ## Fresh examples, CASES for each test: the running service by its OpenAPI documents, and every parser; PODS=100000: so many pods of every size on a real API server
	$(if $(call given,PODS),SLACKWATER_TEST_FRESH=1 SLACKWATER_FUZZ_PODS=$(PODS) $(BIN)/python -m pytest -s --timeout 7200 tests/cluster/test_pods_of_every_size.py,\
	  SLACKWATER_FUZZ_CASES=$(CASES) $(BIN)/python -m pytest --timeout 7200 tests/fuzz)

.PHONY: scale
scale: controlplane ## 5,000 nodes and 150,000 pods on the real API server (NODES=, PODS= for other sizes): sync, memory, lag, filter, plans
	$(BIN)/python -m tests.bench --only scale $(if $(call given,NODES),--nodes $(NODES)) $(if $(call given,PODS),--pods $(PODS))

.PHONY: bench
bench: controlplane ## The full benchmark table (long), results in tests/output/; QUICK=1: at a size that fits CI
	$(BIN)/python -m tests.bench $(if $(QUICK),--quick)

.PHONY: openapi
openapi: $(STAMP) $(if $(RECORD),controlplane) ## Writes openapi/ from the code; RECORD=1 records the ops listener's bodies on a real control plane before
	$(if $(RECORD),SLACKWATER_TEST_EXAMPLES=openapi/examples $(BIN)/python -m pytest tests/cluster/test_ops_examples.py)
	$(BIN)/python -m deploy.documents.openapi openapi

.PHONY: docs
docs: $(STAMP) ## Renews the generated parts of docs/ and deploy/; HELM=1 also renders deploy/chart into plain manifests, with helm (built from Go modules)
	$(BIN)/python -m deploy.documents.pages docs deploy deploy/chart deploy/chart/files deploy/monitoring
	$(if $(HELM),$(BIN)/python -m tests.helm)

.PHONY: site
site: $(STAMP) ## Builds docs/ as a site in build/site; a link that leads nowhere fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict --config-file mkdocs.yml  # docs/adr/0197 says what comes after

.PHONY: lock
lock: $(STAMP) ## Renews requirements.lock (hashes, no addresses)
	$(BIN)/uv lock --upgrade
	$(BIN)/uv export -q --no-emit-workspace --no-header --format requirements-txt --all-groups --all-extras -o requirements.lock
	printf '%s\n' playwright axe-playwright-python | $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url \
	  --constraint requirements.lock -o requirements-browser.lock -

DIST ?= dist
PACK = tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX
# As helm reads it. `helm package` would write the time of packing into it.
PACK_CHART = $(PACK) --mtime=@$(EPOCH) --exclude=.helmignore --transform=s,^chart,slackwater, --directory deploy chart | gzip --no-name -9 > $(DIST)/slackwater-$(RELEASE).tgz
# Whoever has uv needs no virtual environment for this: the command is installed in seconds. Both ways make the same wheels.
.PHONY: dist
ifneq ($(shell command -v uv),)
dist: $(if $(CHART),$(STAMP))
	for part in protocol service; do uv build --quiet --wheel --build-constraint requirements.lock --require-hashes --out-dir $(DIST) ./$$part || exit; done
else
dist: $(STAMP) ## Builds both wheels into DIST; CHART=1: the chart, too
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir $(DIST) ./protocol ./service
endif
	$(if $(CHART),$(PACK_CHART))
	@ls $(DIST)/*.whl

# The time of the last commit: what is built again from it is the same, byte for byte.
EPOCH = $(or $(SOURCE_DATE_EPOCH),$(shell git log -1 --format=%ct))
.PHONY: version
version: $(STAMP) ## Says which version this is; VERSION=0.2.0 sets that one everywhere; CHANGELOG=1 shows the section that changelog.d/ makes
	@$(if $(CHANGELOG),$(BIN)/towncrier build --draft --version $(RELEASE) 2> /dev/null,$(BIN)/python -m deploy.version $(if $(filter command,$(firstword $(origin VERSION))),$(VERSION)))

RELEASE = $(shell $(BIN)/python -m deploy.version)
.PHONY: image
image: $(STAMP) dist ## Builds the container image into DIST/slackwater-image, an OCI layout (Debian packages `mmdebstrap`, `dpkg`); no registry. SBOM=1: bills of materials of wheels and image, too
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m deploy.image --version $(RELEASE) --wheels $(DIST) --into $(DIST)/slackwater-image \
	  --revision "$$(git rev-parse HEAD)" $(IMAGE_ARGS)
	$(if $(SBOM),$(BILLS))

# As CycloneDX and SPDX.
BILLS = SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m deploy.sbom --version $(RELEASE) --wheels $(DIST) --image $(DIST)/slackwater-image --into $(DIST)
.PHONY: release
release: $(if $(LAYOUTS),dist,image) ## All files of a release in DIST, with bills of materials and SHA256SUMS; LAYOUTS="a b": images of several architectures become one; docs/releasing.md says what comes before and after
	@git diff --quiet HEAD || { echo "make release: the tree has changes that are not committed" >&2; exit 1; }
	$(if $(LAYOUTS),$(BIN)/python -m deploy.image.merge --version $(RELEASE) --into $(DIST)/slackwater-image $(LAYOUTS))
	$(BILLS)
	$(PACK_CHART)
	$(PACK) --mtime=@0 --directory $(DIST)/slackwater-image --file $(DIST)/slackwater-image-$(RELEASE).oci.tar blobs index.json oci-layout
	cd $(DIST) && sha256sum *-$(RELEASE)-py3-none-any.whl *-$(RELEASE).tgz *-$(RELEASE).oci.tar *-$(RELEASE).cdx.json *-$(RELEASE).spdx.json > SHA256SUMS
	@cat $(DIST)/SHA256SUMS

.PHONY: size
size: $(STAMP) ## How large the code is, and how far a reader walks (COMMITS="f7cde3cc HEAD": at these commits)
	$(BIN)/python -m tests.size $(COMMITS)
