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

.PHONY: help demo test soak bench bench-smoke lint types clean

help:  ## say what there is
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

demo: $(ENV)  ## run the demo (ARGS="..." go to it)
	@$(PY) -m atops demo $(ARGS)

test: $(ENV)  ## run the tests (ARGS="tests/device -k dte")
	@$(PY) -m pytest -q $(ARGS)

soak: $(ENV)  ## run the long tests: many more examples, other seeds each time
	@$(PY) -m pytest -q -m soak --timeout 1800 --hypothesis-profile soak $(ARGS)

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

$(PEERS): $(ENV)
	@echo "adding the benchmark's peers"
	@$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev,bench]'
	@touch $@
