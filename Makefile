# What one does with gdatalog in a fresh clone. Each target makes what it needs: a virtual
# environment in .venv, and in it the package with what pyproject.toml names.
#
#     make demo          runs queries/triangles.dl and shows the answer; on a GPU too, where one is
#     make demo-cluster  starts workers on this machine, asks them, kills one, and stops them
#     make test          the tests, some minutes
#     make check-rest    style, types, the slow tests and those of kernels
#     make check         both
#     make drawn         all drawn cases of all tests, for an hour or two
#     make replay        which plans and loops of many programs differ from those of main
#     make coverage      how much of the parser, planner, engine and storage the tests run
#     make docs          builds the documentation, in site/
#     make bench         the benchmarks, in at most 20 minutes; make bench-full runs the rest too
#     make test-gpu      the tests of an NVIDIA GPU, some minutes
#     make bench-gpu     the benchmarks of one, some minutes
#     make clean         removes what the others made
#
# With another Python: make test PYTHON=python3.12. With more processes: make test JOBS=8.

PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(VENV)/bin
# Python compiles modules as they are imported; pip would compile all of them, for a minute.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile
PYTEST := $(BIN)/python -m pytest -n $(JOBS) --dist worksteal -rs
WANTED := $(BIN)/python -m gdatalog.gpu_ops.diagnosis
COVERED := parser planner plan engine storage

# Tests start many processes: without its cache, each compiles all modules that it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test check check-rest drawn replay coverage docs bench bench-full bench-again
.PHONY: test-gpu bench-gpu clean

help:
	@sed -n 's/^#     make/make/p' Makefile

# Where a GPU is, the same questions go to it and to the CPU.
demo: $(VENV)/base
	$(BIN)/gdatalog queries/triangles.dl
	@! $(WANTED) >/dev/null 2>&1 || $(MAKE) --no-print-directory demo-gpu

.PHONY: demo-gpu
demo-gpu: $(VENV)/gpu
	$(BIN)/python -m benchmarks.gpu.demo

.PHONY: demo-cluster
demo-cluster: $(VENV)/cluster
	$(BIN)/python -m benchmarks.on_workers

# A sixth of the drawn cases that pytest alone draws; check-rest draws half of those of slow tests.
test: $(VENV)/dev
	GDATALOG_PROGRAMS=50 GDATALOG_FUZZ=50 $(PYTEST)

# What `make test` leaves out. The types are checked while the tests run; with one process more,
# for a third of these tests' time is spent in waiting for workers of a cluster and the like.
check-rest: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@$(BIN)/mypy & types=$$!; \
	  GDATALOG_PROGRAMS=150 GDATALOG_FUZZ=150 \
	    $(PYTEST) -n $$(($(JOBS) + 1)) -m '(slow or host) and not gpu'; \
	  tests=$$?; \
	  wait $$types && exit $$tests

check:
	@$(MAKE) --no-print-directory test
	@$(MAKE) --no-print-directory check-rest

drawn: $(VENV)/dev
	$(PYTEST) -m 'drawn and not gpu'

# Fails if any differs.
replay: $(VENV)/dev
	$(BIN)/python -m tests.replay

# Not in the tests of kernels: it makes tests slower by half.
coverage: $(VENV)/dev
	$(PYTEST) -m 'not (gpu or host)' \
	  $(COVERED:%=--cov=gdatalog/%) --cov-branch --cov-report=
	$(BIN)/coverage report --skip-covered --fail-under=92

# Without the network: the pages hold all that they show.
docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "the documentation is in site/index.html"

# Slow peers are run once on a kind of machine, and remembered; bench-again does not remember.
bench: $(VENV)/bench
	$(BIN)/python -m benchmarks --minutes 19

bench-full: $(VENV)/bench
	$(BIN)/python -m benchmarks --full

bench-again: $(VENV)/bench
	$(BIN)/python -m benchmarks --full --again

# Both end with what is missing, where no GPU can be used.
test-gpu: $(VENV)/gpu $(VENV)/dev
	$(PYTEST) -m 'gpu and not slow'

bench-gpu: $(VENV)/gpu
	$(BIN)/python -m benchmarks.gpu --minutes 8

clean:
	rm -rf $(VENV) build dist site htmlcov .coverage .coverage.* .hypothesis
	rm -rf .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again when pyproject.toml changes.
$(VENV)/base: pyproject.toml | $(VENV)/made
	@echo "installing gdatalog into $(VENV)"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/dev: pyproject.toml | $(VENV)/made
	@echo "installing gdatalog and its tools into $(VENV)"
	@$(INSTALL) --editable '.[dev]'
	@touch $(VENV)/base $@

$(VENV)/bench: pyproject.toml | $(VENV)/made
	@echo "installing gdatalog, its tools and its peers into $(VENV)"
	@$(INSTALL) --editable '.[dev,bench]'
	@touch $(VENV)/base $(VENV)/dev $@

$(VENV)/cluster: pyproject.toml | $(VENV)/made
	@echo "installing gdatalog and Dask into $(VENV)"
	@$(INSTALL) --editable '.[cluster]'
	@touch $(VENV)/base $@

# CuPy, of the kind that the driver needs.
$(VENV)/gpu: pyproject.toml | $(VENV)/base
	@extra=$$($(WANTED)) && echo "installing CuPy into $(VENV): $$extra" && \
	  $(INSTALL) --editable ".[$$extra]" matplotlib
	@touch $@

$(VENV)/made:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "there is no $(PYTHON) here: gdatalog needs Python 3.11 or later" >&2; \
	  echo "cure: install one (Debian: apt install python3 python3-venv)," >&2; \
	  echo "      or name one, as in: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "gdatalog needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) -V 2>&1)" >&2; \
	  echo "cure: install a newer one, then name it, as in: make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make virtual environments: its venv or ensurepip is missing" >&2; \
	  echo "cure: Debian, Ubuntu: apt install python3-venv; elsewhere: a whole Python" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@
