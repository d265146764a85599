# The same targets locally and in CI. Only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed

.PHONY: install format lint type unit test check clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(STAMP)

format: $(STAMP)  ## ruff fixes what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)  ## no sockets; seconds
	$(BIN)/python -m pytest tests/unit_tests

test: $(STAMP)  ## every test; no key, no network
	$(BIN)/python -m pytest

check: lint type test

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache
