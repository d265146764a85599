# The same targets locally and in CI. Only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed

.PHONY: install demo format lint type unit test test-lowest fuzz soak check clean

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

fuzz: $(STAMP)  ## hostile input for a few minutes, other examples each time
	FUZZ_EXAMPLES=$${FUZZ_EXAMPLES:-5000} STORY_EXAMPLES=$${STORY_EXAMPLES:-300} $(BIN)/python -m pytest \
		tests/unit_tests/wire/test_fuzz.py tests/integration_tests/test_stories.py --timeout 3600

soak: $(STAMP)  ## thousands of calls with faults; prints memory, sockets, tasks and threads
	$(BIN)/python -m tests.soak

check: lint type test

clean:
	rm -rf $(VENV) $(VENV)-lowest .mypy_cache .ruff_cache .pytest_cache
