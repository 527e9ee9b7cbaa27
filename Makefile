# Everything sets itself up: a fresh machine needs Python 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0

.PHONY: demo test slow browser lint bench clean

demo: $(VENV)/.run
	$(BIN)/idiolect run demo

test: $(VENV)/.test
	$(BIN)/pytest -n auto

slow: $(VENV)/.browser
	$(BIN)/pytest -m slow

# Reports in a real browser, if there is a chromium; part of `make slow`. What they show need not be computed fast.
browser: $(VENV)/.browser
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/pytest -m slow -rs tests/browser

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# PyTorch is only what we measure ourselves against; nothing in the package needs it. The cost of Ray is measured if it
# is there: $(BIN)/pip install -e '.[ray]'
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/client_update.py
	$(BIN)/python benchmarks/engine_cost.py
	$(BIN)/python benchmarks/serverless.py
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/ray_cost.py

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.browser: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,browser]'
	touch $@

$(VENV)/.lint: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[lint]'
	touch $@

$(VENV)/.bench: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e . '$(TORCH)'
	touch $@
