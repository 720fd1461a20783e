# Everything runs in .venv, which the first target that needs it makes; Python 3.11 or newer is all that must be there.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test lint types layers diagrams stale bench clean

help: ## Show what there is to make.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/python: ; @$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=..." if sys.version_info < (3, 11) else 0)' \
	&& $(PYTHON) -m venv .venv && touch $@

.venv/cli: .venv/python pyproject.toml
	@$(PIP) --editable '.[cli,postgres]' && touch $@

.venv/test: .venv/python pyproject.toml
	@$(PIP) --editable '.[test]' && touch $@

demo: .venv/cli ## Kill a driver in the middle of its work and find nothing lost (about 15 seconds); DB=postgresql://... plays it there.
	@$(BIN)/fsm demo $(if $(DB),--db '$(DB)')

test: .venv/test ## Run the whole test suite; ENGINES=sqlite (postgres, serializable) runs what touches a database on these alone, TESTS=folder a part.
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(if $(ENGINES),--engines $(ENGINES)) $(TESTS)

lint: .venv/test ## Check style and format.
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: .venv/test ## Check types.
	@$(BIN)/mypy

layers: .venv/test ## Check that no layer imports a higher one.
	@$(BIN)/lint-imports

diagrams: .venv/test ## Write the gallery, and the README's overview, anew from the declarations.
	@$(BIN)/python -m diagrams

stale: .venv/test ## Check that the gallery is what the declarations say.
	@$(BIN)/python -m diagrams --check

bench: .venv/test ## Print the cost of the machine and of the public functions, as ratios to the same SQL written raw.
	@$(BIN)/python -m pytest tests/benchmarks -m benchmark_ratio -q -s -p no:xdist

clean: ## Remove what the other targets made.
	@rm -rf .venv dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
