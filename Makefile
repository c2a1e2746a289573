# gnus-node: plain `make` lists the targets. `make demo` and `make test` do their own set-up.
SHELL := /bin/bash
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help setup demo test p2p embedded lint bench schemas clean

help:  ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 12

setup:  ## make .venv and install the node with what tests and the demo need
	@PYTHON="$(PYTHON)" .ci/setup

demo: setup  ## start a node with nine roles, ask real questions, verify every audit (QUESTIONS=FILE asks a file's)
	@$(BIN)/python -m simulations.demo $(if $(QUESTIONS),--questions "$(QUESTIONS)")

test: setup  ## run the whole test suite
	@$(BIN)/python -m pytest -q

p2p:  ## run the tests of the network over libp2p, in an environment of its own (.venv-p2p)
	@PYTHON="$(PYTHON)" .ci/setup --p2p
	@GNUS_REQUIRE_P2P=1 .venv-p2p/bin/python -m pytest -q -m "not bench" tests/p2p tests/unit/net

embedded:  ## test embedded models with real weights, 253 MB (ACCEPT_LICENSE=yes once you have read the licence it prints)
	@PYTHON="$(PYTHON)" .ci/setup --embedded
	@.venv-embedded/bin/gnus-node model install gemma-3-270m --folder run/models $(if $(filter yes,$(ACCEPT_LICENSE)),--accept-license)
	@GNUS_REQUIRE_EMBEDDED=1 GNUS_MODELS=run/models .venv-embedded/bin/python -m pytest -q -m "not bench" tests/embedded tests/unit/host tests/unit/experts

lint: setup  ## ruff, mypy --strict, import contracts, house rules
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .
	@$(BIN)/python -m mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m tests.house

bench: setup  ## measure overhead, start-up and memory against baselines of the same run
	@$(BIN)/python -m simulations.bench

schemas: setup  ## regenerate schemas/*.json and the made pages of docs/
	@$(BIN)/gnus-node schema export --output schemas
	@$(BIN)/python -m gnus_node.cli.docs

clean:  ## remove what the other targets made, the environment too; data in run/ stays
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .setup.lock $(VENV) .venv-p2p .venv-embedded
