# Kilocard: `make` lists what it can do. The set-up runs by itself before each target, once.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name) 2>/dev/null)))
BOX ?=
MODEL ?=

PY := .venv/bin/python
KILOCARD := .venv/bin/kilocard
NBVAL := --nbval --nbval-current-env --nbval-cell-timeout=600 --nbval-kernel-startup-timeout=120 \
  --nbval-sanitize-with tests/book/nbval_sanitize.cfg

ifneq ($(MODEL),)
export KILOCARD_MODEL := $(MODEL)
endif

.PHONY: help setup book refresh site lab look check test hunt clean

help:  ## what there is
	@echo 'Kilocard: From One Card to a Thousand'
	@echo
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-9s %s\n", $$1, $$2}' Makefile
	@echo
	@echo '  BOX=cpu or BOX=gpu overrules what the set-up finds, and BOX=book does without vLLM: the engine'
	@echo '  is emulated. MODEL=/path/or/id serves another model;'
	@echo '  KILOCARD_ENGINE_URL=http://host:port uses an engine that already runs.'

setup: export PYTHON := $(PYTHON)
setup: export BOX := $(BOX)
setup:  ## the environment in .venv, the browser for the tests, the embedded model
	@[[ $$("$${PYTHON:-python3}" -c 'print(311)' 2>&1) == 311 ]] || \
	  { echo "set-up: $${PYTHON:-python3} is no Python that runs here: install 3.11 or newer, or make PYTHON=/path/of/one" >&2; exit 1; }
	@"$$PYTHON" tools/setup $${BOX:+--box "$$BOX"}

book: setup  ## run every notebook on this box, and build the site from that
	@$(KILOCARD) book build

refresh: setup  ## run every notebook in place, to be committed with its new outputs
	@$(KILOCARD) book execute --in-place
	@$(KILOCARD) book site

site: setup  ## build the site from the stored outputs, in seconds
	@$(KILOCARD) book site

lab: export KILOCARD_MEASURED := $(CURDIR)/_build/measured
lab: setup  ## open the notebooks in JupyterLab, an engine a cell away
	@$(PY) -m jupyterlab --notebook-dir=. --LabApp.default_url=/lab/tree/notebooks/1-one-card/1-two-species.ipynb $(if $(filter 0,$(shell id -u)),--allow-root)

look: setup  ## picture every page of the built site, wide and phone, light and dark
	@$(KILOCARD) book look

check: setup  ## style and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

test: check  ## everything that must hold: style, types, laws, notebooks, pages, browser
	@export TMPDIR=$$(mktemp -d); trap 'rm -rf "$$TMPDIR"' EXIT; \
	$(PY) -m pytest -n 2 --dist loadscope -m 'not alone' tests; \
	$(PY) -m pytest $(NBVAL) -m alone tests notebooks

hunt: setup  ## try every law on a thousand examples that were never drawn before
	@export TMPDIR=$$(mktemp -d); trap 'rm -rf "$$TMPDIR"' EXIT; \
	KILOCARD_HUNT=1 $(PY) -m pytest -n 2 --dist loadscope -m 'hypothesis and not alone' tests

clean:  ## what was built; the environment and the model stay
	@rm -rf _build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo 'Built files are gone. .venv stays: rm -rf .venv to start over.'
