# Two commands: `make demo` and `make test`. Everything lands in .venv; nothing else is touched.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: demo test lint types unit contract integration e2e browser wheel format config perf clean

demo: $(VENV)/.serve
	$(BIN)/editjudge demo --out out/demo

test: lint types unit contract integration e2e
	@echo "left out: browser tests (make browser; needs chromium)"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m editjudge_services.runtime.repository --check

types: $(VENV)/.dev
	$(BIN)/mypy

unit contract integration e2e: $(VENV)/.dev
	$(BIN)/python -m pytest tests/$@ -q

browser: $(VENV)/.dev
	$(BIN)/python -m pytest tests/e2e -q --browser -m browser

format config: $(VENV)/.dev
	$(BIN)/python -m editjudge_services.runtime.repository
	$(BIN)/ruff check --fix -q . ; $(BIN)/ruff format -q .

wheel: $(VENV)/.dev
	.ci/wheel

perf: $(VENV)/.dev
	$(BIN)/python perf/pixels.py
	$(BIN)/python perf/panel.py
	$(BIN)/python perf/serving.py
	$(BIN)/python perf/specialists.py

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "editjudge needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.serve: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[serve]'
	@touch $@

# Both name packages that must not come: pypiqe (a reference in tests) the desktop build of
# OpenCV, lpips (its linear heads are data) a torchvision that does not load beside CPU torch.
$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) install -c constraints.txt -e '.[serve,dev]'
	$(PIP) install -c constraints.txt --no-deps pypiqe lpips
	@touch $@ $(VENV)/.serve

clean:
	rm -rf out dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
