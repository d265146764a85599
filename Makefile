# The same targets locally and in CI. Only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed

.PHONY: install demo format lint type unit test test-lowest bench check clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@if [ -d .git ]; then $(BIN)/pre-commit install --install-hooks >/dev/null 2>&1 || true; fi
	@touch $(STAMP)

demo: $(STAMP)  ## an agent end to end, no key needed
	@$(BIN)/python -m tests.demo

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

test-lowest:  ## every test, with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-lowest/bin/python -m pip install --quiet --editable '.[dev]' --constraint tests/lowest.txt
	$(VENV)-lowest/bin/python -m pytest

# Two environments as users have them: what the tests need besides would be loaded by the SDK, too.
bench: $(VENV)-bench/.installed $(VENV)-peer/.installed  ## CPU and memory next to others
	$(VENV)-bench/bin/python -m tests.benchmarks.run --peer-python $(VENV)-peer/bin/python $(BENCH)

$(VENV)-bench/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-bench
	$(VENV)-bench/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-bench/bin/python -m pip install --quiet --editable .
	@touch $@

$(VENV)-peer/.installed: tests/benchmarks/peer.txt
	$(PYTHON) -m venv $(VENV)-peer
	$(VENV)-peer/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-peer/bin/python -m pip install --quiet --requirement tests/benchmarks/peer.txt
	@touch $@

check: lint type test

clean:
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-bench $(VENV)-peer .mypy_cache .ruff_cache .pytest_cache
