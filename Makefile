# One command does everything: each target sets up its own .venv first.
PY := .venv/bin/python
STAMP := .venv/.ready

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## make .venv with everything in it

$(STAMP): pyproject.toml
	test -x $(PY) || python3 -m venv .venv
	$(PY) -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: setup ## the main job on real input: first come first served against fair
	$(PY) scripts/noisy_neighbour.py

demo-batch: setup ## batches from a file while the ingest and the worker are killed: every item counted once
	$(PY) scripts/batch_demo.py

fmt: setup ## format the code
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

lint: setup ## style and import contracts
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports

type: setup ## mypy --strict
	.venv/bin/mypy

test: setup ## the whole suite, on the embedded server unless FAIRQUEUE_TEST_URL names another
	$(PY) -m pytest -m "not faults"

test-fast: setup ## words and rules only: no server
	$(PY) -m pytest tests/unit

test-server: setup ## the tests that also run on other servers
	$(PY) -m pytest -m "server and not faults"

test-faults: setup ## slow runs under real faults
	$(PY) -m pytest -m faults

bench: setup ## messages a second, and what each costs
	$(PY) scripts/bench.py

docs: setup ## run the examples of README and docs
	$(PY) -m pytest tests/test_docs.py

ci: ## what CI runs
	bash .ci/run

clean: ## remove what was made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache *.egg-info

.PHONY: help setup demo demo-batch fmt lint type test test-fast test-server test-faults bench docs ci clean
