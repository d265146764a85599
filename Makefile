# The same targets locally and in CI. Only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
STAMP   = $(VENV)/.installed

.PHONY: install demo format lint type unit test test-lowest test-deepagents fuzz test-vcrpy9 record check clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@if [ -d .git ]; then $(BIN)/pre-commit install --install-hooks >/dev/null 2>&1 || true; fi
	@touch $(STAMP)

demo: $(STAMP)  ## an agent end to end, no key needed
	@$(BIN)/python -m langchain_gemini_tools

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

test-deepagents:  ## deepagents, which pins google-genai below 3, in an environment of its own
	$(PYTHON) -m venv $(VENV)-deepagents
	$(VENV)-deepagents/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-deepagents/bin/python -m pip install --quiet --editable . deepagents aiohttp blockbuster vcrpy pytest pytest-asyncio pytest-timeout
	$(VENV)-deepagents/bin/python -m pytest tests/integration_tests/test_deepagents.py tests/integration_tests/test_client_seam.py

fuzz: $(STAMP)  ## the fault run of ToolLoop with a thousand seeds; minutes
	TOOL_LOOP_SEEDS=1000 $(BIN)/python -m pytest tests/unit_tests/tool_loop/test_fault_run.py -q --timeout 300

test-vcrpy9:  ## what concerns cassettes, with vcrpy 9, which langchain-tests does not take yet
	$(PYTHON) -m venv $(VENV)-vcrpy9
	$(VENV)-vcrpy9/bin/python -m pip install --quiet --editable '.[testing]' --requirement tests/vcrpy9.txt
	$(VENV)-vcrpy9/bin/python -m pytest tests/unit_tests/testing tests/integration_tests/test_cassette*.py

record: $(STAMP)  ## cassettes: against the API with GOOGLE_API_KEY, else against the emulator
	$(BIN)/python -m tests.scenarios
	$(BIN)/python -m tests.record_demo
	$(BIN)/python -m tests.record_notebooks

check: lint type test

clean:
	rm -rf $(VENV) $(VENV)-* .mypy_cache .ruff_cache .pytest_cache
