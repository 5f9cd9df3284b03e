# atops: one environment (.venv, or VENV=...), made by venv and pip from pyproject.toml and constraints.txt, and what runs in it.
# Needed: make, Python 3.11 or later (PYTHON=... names another one), and pip with an index to install from. `make demo`
# installs what a user of the package has; whatever else is needed is added by the first target that needs it.

PYTHON ?= python3
VENV ?= .venv
ARGS ?=

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PY := $(VENV)/bin/python
# No bytecode at the installation: Python writes that of the modules which are used.
UNCONSTRAINED := $(PY) -m pip --disable-pip-version-check --quiet install --no-compile
INSTALL := $(UNCONSTRAINED) --constraint constraints.txt
PACKAGE := $(INSTALL) --no-build-isolation --editable
BASE := $(VENV)/.made
DEV := $(VENV)/.dev
DOCS := $(VENV)/.docs
NOTEBOOKS := $(VENV)/.notebooks
PEERS := $(VENV)/.peers
CLUSTER := $(VENV)/.cluster
KERNEL6 := $(VENV)/.kernel6

.PHONY: help demo demo-cluster check test soak mutation conformance bench bench-smoke docs notebook lint types clean

help:  ## say what there is
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

demo: $(BASE)  ## run the demo (ARGS="..." go to it)
	@$(PY) -m atops demo $(ARGS)

demo-cluster: $(CLUSTER)  ## run it on two worker processes, one of which is killed (ARGS: a scheduler's address)
	@$(PY) examples/cluster/histogram.py $(ARGS)

# Compiled tests are kept in the environment, also where Python is told to write no bytecode: collecting takes a third.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(abspath $(VENV))/.pycache $(PY) -m pytest -q
# Of the processors that this may run on: "auto" would count all that the machine has.
PROCESSORS := $(shell nproc)
PARALLEL := --maxprocesses 4 --dist loadfile --no-loadscope-reorder

check: $(DEV)  ## run the quick tests: an answer in a minute
	@$(PYTEST) -n $(PROCESSORS) $(PARALLEL) -m "not soak and not slow" $(ARGS)

# A worker a processor, and one more for the time that tests wait for browsers, kernels of notebooks and signals. Each
# has whole files, so that a file's tests keep their order (ARGS="-n 0" runs in one process).
test: $(DEV) $(KERNEL6)/.made  ## run the tests (ARGS="tests/device -k dte")
	@$(PYTEST) -n $(shell echo $$(($(PROCESSORS) + 1))) $(PARALLEL) $(ARGS)

soak: $(DEV)  ## run the long tests: many more examples, other seeds each time
	@$(PYTEST) -m soak --timeout 1800 --hypothesis-profile soak $(ARGS)

mutation: $(DEV)  ## plant faults and report which of them no test notices (ARGS="dte --sample 20")
	@$(PY) -m tests.mutation.run $(ARGS)

conformance: $(DEV)  ## say what tests each C-style function has (ARGS="--json")
	@$(PY) -m tests.tops.conformance_report $(ARGS)

bench: $(DEV) $(PEERS)  ## measure the budgets beside primitives and peers (ARGS="--help")
	@$(PY) -m atops bench $(ARGS)

bench-smoke: $(DEV)  ## run every benchmark once; no figure is judged
	@$(PY) -m atops bench --smoke $(ARGS)

docs: $(DOCS)  ## build the site of the documents in out/site; it needs no network (ARGS="--site-dir FOLDER")
	@NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet $(ARGS)
	@echo "open out/site/index.html"

notebook: $(NOTEBOOKS)  ## open the tour in JupyterLab
	@mkdir -p out
	@$(PY) -m jupytext --quiet --update --to ipynb --output out/tour.ipynb examples/tour/tour.py
	@$(PY) -m jupyterlab out/tour.ipynb $(ARGS)

lint: $(DEV)  ## ruff
	@$(PY) -m ruff check $(ARGS) .

types: $(DEV)  ## mypy, strict
	@$(PY) -m mypy $(ARGS)

clean:  ## remove the environment and what the tools keep
	rm -rf .venv .venv-* build dist out .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The build back end is installed from the constraints too and used without isolation, so that nothing is unpinned.
# This machine's pip is quicker than one that has to be unpacked first; where it is missing or old, ensurepip unpacks one.
$(BASE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    f"atops needs Python 3.11 or later; {sys.executable} is {sys.version.split()[0]}. Set PYTHON=...")'
	@echo "making $(VENV)"
	@rm -rf $(VENV)
	@$(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --disable-pip-version-check --python $(PY) install --quiet --no-compile \
	    --constraint constraints.txt pip 2>/dev/null || $(PY) -m ensurepip >/dev/null
	@$(INSTALL) pip hatchling hatch-fancy-pypi-readme
	@$(PACKAGE) .
	@touch $@

$(DEV): $(BASE)
	@echo "adding what the tests need"
	@$(PACKAGE) '.[all]' --group dev
	@touch $@

$(DOCS): $(BASE)
	@echo "adding what the documents need"
	@$(INSTALL) --group docs
	@touch $@

$(NOTEBOOKS): $(BASE)
	@echo "adding what the notebooks need"
	@$(PACKAGE) '.[notebook]' --group notebooks
	@touch $@

$(CLUSTER): $(BASE)
	@echo "adding what a cluster needs"
	@$(PACKAGE) '.[dask]'
	@touch $@

# The older ipykernel in a folder of its own, which tests put before the environment's; all that it needs is there already.
# The constraints name the newer one.
$(KERNEL6)/.made: $(DEV)
	@echo "adding ipykernel 6"
	@$(UNCONSTRAINED) --no-deps --upgrade --target $(KERNEL6) ipykernel==6.31.0 nest-asyncio==1.6.0
	@touch $@

$(PEERS): $(DEV)
	@echo "adding the benchmark's peers"
	@$(INSTALL) --group bench
	@touch $@
