# atops: one environment (.venv), made by venv and pip from pyproject.toml and constraints.txt, and what runs in it.
# Needed: make, Python 3.11 or later (PYTHON=... names another one), and pip with an index to install from.

PYTHON ?= python3
ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PY := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --quiet
ENV := .venv/.made
PEERS := .venv/.peers
KERNEL6 := .venv/.kernel6

.PHONY: help demo check test soak mutation conformance bench bench-smoke lint types clean

help:  ## say what there is
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

demo: $(ENV)  ## run the demo (ARGS="..." go to it)
	@$(PY) -m atops demo $(ARGS)

# Compiled tests are kept in the environment, also where Python is told to write no bytecode: collecting takes a third.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.venv/.pycache $(PY) -m pytest -q
PARALLEL := -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

check: $(ENV)  ## run the quick tests: an answer in a minute
	@$(PYTEST) $(PARALLEL) -m "not soak and not slow" $(ARGS)

# A worker a processor, each with whole files, so that a file's tests keep their order (ARGS="-n 0" runs in one process).
test: $(ENV) $(KERNEL6)/.made  ## run the tests (ARGS="tests/device -k dte")
	@$(PYTEST) $(PARALLEL) $(ARGS)

soak: $(ENV)  ## run the long tests: many more examples, other seeds each time
	@$(PYTEST) -m soak --timeout 1800 --hypothesis-profile soak $(ARGS)

mutation: $(ENV)  ## plant faults and report which of them no test notices (ARGS="dte --sample 20")
	@$(PY) -m tests.mutation.run $(ARGS)

conformance: $(ENV)  ## say what tests each C-style function has (ARGS="--json")
	@$(PY) -m tests.tops.conformance_report $(ARGS)

bench: $(ENV) $(PEERS)  ## measure the budgets beside primitives and peers (ARGS="--help")
	@$(PY) -m atops bench $(ARGS)

bench-smoke: $(ENV)  ## run every benchmark once; no figure is judged
	@$(PY) -m atops bench --smoke $(ARGS)

lint: $(ENV)  ## ruff
	@$(PY) -m ruff check $(ARGS) .

types: $(ENV)  ## mypy, strict
	@$(PY) -m mypy $(ARGS)

clean:  ## remove the environment and what the tools keep
	rm -rf .venv build dist out .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build back end is installed from the constraints too and used without isolation, so that nothing is unpinned.
$(ENV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    f"atops needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}. Set PYTHON=...")'
	@echo "making .venv"
	@rm -rf .venv
	@$(PYTHON) -m venv .venv
	@$(PIP) install --constraint constraints.txt hatchling
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@

# The older ipykernel in a folder of its own, which tests put before the environment's; all that it needs is there already.
$(KERNEL6)/.made: $(ENV)
	@echo "adding ipykernel 6"
	@$(PIP) install --no-deps --upgrade --target $(KERNEL6) ipykernel==6.31.0 nest-asyncio==1.6.0
	@touch $@

$(PEERS): $(ENV)
	@echo "adding the benchmark's peers"
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev,bench]'
	@touch $@
