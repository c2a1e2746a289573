# gnus-node: plain `make` lists the targets. `make demo` and `make test` do their own set-up.
SHELL := /bin/bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench schemas clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

setup: $(STAMP)  ## make .venv and install the node with what tests and the demo need

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("gnus-node needs Python 3.11 or later; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV) || { echo "what: python's venv module did not work; fix: apt-get install python3-venv, or set PYTHON=/path/to/python3"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,demo]'
	@touch $(STAMP)

demo: setup  ## start a node with nine roles, ask real questions, verify every audit (QUESTIONS=FILE asks a file's)
	@$(BIN)/python -m simulations.demo $(if $(QUESTIONS),--questions "$(QUESTIONS)")

test: setup  ## run the whole test suite
	@$(BIN)/python -m pytest -q

lint: setup  ## ruff, mypy --strict, import contracts, house rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.house

bench: setup  ## measure overhead, start-up and memory against baselines of the same run
	@$(BIN)/python -m simulations.bench

schemas: setup  ## regenerate schemas/*.json and the generated tables in docs/
	@$(BIN)/gnus-node schema export --output schemas

clean:  ## remove what the other targets made
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache $(VENV)
