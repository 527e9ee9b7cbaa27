# Everything sets itself up: a fresh machine needs Python 3.11, git and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= torch==2.13.0
TORCHAX ?= torchax==0.0.14.dev20261026
TORCH_VENV := .venv-torch
DOCS_VENV := .venv-docs
FLOWER_VENV := .venv-flower
RIVALS_VENV := .venv-rivals

.PHONY: demo test coverage test-torch test-flower slow slow-torch notebooks real browser attack lint bench bench-full speed-page fuzz mutants dist docs \
  walk clean

demo: $(VENV)/.run
	$(BIN)/idiolect run demo

test: $(VENV)/.test
	$(BIN)/pytest -n auto

# Which lines of the package the same tests run, all but what only happens in other processes; pages in htmlcov/. It
# takes longer than `make test`, which therefore does not count them.
coverage: $(VENV)/.coverage
	$(BIN)/pytest -n auto --cov --cov-report=term:skip-covered --cov-report=html

# PyTorch, the JAX libraries and those that hold tables, in an environment of their own. A dated torchax, since the last
# release does not import with this PyTorch.
test-torch: $(TORCH_VENV)/.test
	$(TORCH_VENV)/bin/pytest -n auto -rs tests/torch $(addprefix tests/data/test_,library_sources.py token_models.py picture_folders.py) \
	  tests/tracking tests/deploy/test_own_rows.py
	$(TORCH_VENV)/bin/pytest -rs -m slow tests/deploy/test_parquet_tables.py
	$(TORCH_VENV)/bin/pytest -k torch tests/test_public_names.py tests/test_docs.py

# Flower holds a few libraries at older versions, so it has an environment of its own. FLOWER="-m slow -s": a real SuperLink.
FLOWER ?=
test-flower: $(FLOWER_VENV)/.test
	$(FLOWER_VENV)/bin/pytest -rs $(FLOWER) tests/deploy/test_flower.py
	$(FLOWER_VENV)/bin/pytest -k flower tests/test_public_names.py
# All named algorithms on a module by both bridges.
slow-torch: $(TORCH_VENV)/.test
	$(TORCH_VENV)/bin/pytest -n auto -rs -m slow tests/torch

# The notebooks of examples/, executed from their beginning; tests compare what they show.
notebooks: $(TORCH_VENV)/.test
	$(TORCH_VENV)/bin/pip install --quiet --disable-pip-version-check ipykernel matplotlib nbclient
	$(TORCH_VENV)/bin/python examples/execute_notebooks.py

# What takes long, and laws on examples that nobody has drawn before.
slow: $(VENV)/.browser
	$(BIN)/pytest -m slow
	$(BIN)/pytest -n auto -m "hypothesis and not slow" --hypothesis-profile=searching

# Real processes on loopback with certificates: servers, devices and peers are killed at every durable write and sending.
real: $(VENV)/.test
	$(BIN)/pytest -m 'slow or not slow' tests/deploy tests/watching

# Reports in a real browser, if there is a chromium; part of `make slow`. What they show need not be computed fast.
browser: $(VENV)/.browser
	JAX_DISABLE_MOST_OPTIMIZATIONS=1 $(BIN)/pytest -m slow -rs tests/browser

# Runs are killed, frozen, damaged and poisoned at random for so many seconds; what it finds, it finds again by seed.
SECONDS ?= 120
SEED ?= 0
attack: $(VENV)/.test
	$(BIN)/python -m tests.attack --seconds $(SECONDS) --seed $(SEED)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# PyTorch, Flower and pfl are only what we measure ourselves against; nothing in the package needs them. Short sizes take
# about twelve minutes on two quiet cores. What was measured at this commit is not measured again; BENCH="--only scale",
# BENCH="--again". Figures go to .bench/; `make speed-page` makes docs/speed.md of them.
BENCH ?=
RIVALS := --torch $(TORCH_VENV)/bin/python --rivals $(RIVALS_VENV)/bin/python
bench: $(VENV)/.bench $(TORCH_VENV)/.test $(RIVALS_VENV)/.bench
	$(BIN)/python benchmarks/run_all.py $(RIVALS) $(BENCH)

bench-full: $(VENV)/.bench $(TORCH_VENV)/.test $(RIVALS_VENV)/.bench
	$(BIN)/python benchmarks/run_all.py --full $(RIVALS) $(BENCH)

FIGURES ?= .bench/full.json
speed-page:
	$(PYTHON) benchmarks/speed_page.py $(FIGURES)

# Changes of the code, one at a time, and whether the fast tests notice. By hand: MUTANTS="--sample 300 --seed 1".
mutants: $(VENV)/.mutants
	nice -n 10 $(BIN)/python mutation/mutants.py $(MUTANTS)

# A million hostile bundles for the reader in C: by libFuzzer where there is a clang that has it, else by our own changes.
C := src/idiolect/device/c
INPUTS ?= 1000000
STRICT := -std=c99 -Wall -Wextra -Werror -O1 -g -I$(C) -fno-sanitize-recover=all
fuzz: $(VENV)/.test
	rm -rf .fuzz && mkdir .fuzz
	$(BIN)/python -m tests.device.fuzz_seeds .fuzz/seeds
	if clang $(STRICT) -fsanitize=fuzzer,address,undefined tests/device/fuzz_reader.c $(C)/idiolect.c -lm -o .fuzz/fuzz; \
	then .fuzz/fuzz -runs=$(INPUTS) -max_len=20000 .fuzz/seeds; \
	else gcc $(STRICT) -fsanitize=address,undefined tests/device/fuzz_reader.c tests/device/mutate.c $(C)/idiolect.c \
		-lm -o .fuzz/fuzz && .fuzz/fuzz $(INPUTS) .fuzz/seeds/*; \
	fi

# What a release uploads, checked as the package index does.
dist: $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# The site, with every tutorial executed, into docs/_build/html. A warning is an error, and nothing is downloaded for it.
docs: $(DOCS_VENV)/.docs
	$(DOCS_VENV)/bin/sphinx-build -W --keep-going -q -b html docs docs/_build/html

# README and tutorials, as somebody who has the wheel and nothing else would go through them.
walk: $(BIN)/python
	$(BIN)/pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m tests.walk

clean:
	rm -rf docs/_build $(VENV) $(TORCH_VENV) $(DOCS_VENV) $(FLOWER_VENV) $(RIVALS_VENV) .bench .fuzz .coverage htmlcov \
	  .pytest_cache .mypy_cache .ruff_cache

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@

$(VENV)/.coverage: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,coverage]'
	touch $@

$(VENV)/.browser: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,browser]'
	touch $@

$(TORCH_VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/pip install --quiet --disable-pip-version-check '$(TORCH)' '$(TORCHAX)' transformers peft \
	  -e '.[datasets,equinox,flax,haiku,images,onnx,tables,tensorboard,torch,zenoh]' hypothesis pytest pytest-xdist
	touch $@

$(DOCS_VENV)/.docs: pyproject.toml
	$(PYTHON) -m venv $(DOCS_VENV)
	$(DOCS_VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

$(FLOWER_VENV)/.test: pyproject.toml
	$(PYTHON) -m venv $(FLOWER_VENV)
	$(FLOWER_VENV)/bin/pip install --quiet --disable-pip-version-check -e '.[flower,zenoh]' hypothesis pytest
	touch $@

$(VENV)/.lint: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[lint]'
	touch $@

$(VENV)/.mutants: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,mutants]'
	touch $@

$(VENV)/.bench: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[onnx,ray,zenoh]' '$(TORCH)'
	touch $@

# Whichever of the two cannot be installed is named as left out.
$(RIVALS_VENV)/.bench: pyproject.toml
	$(PYTHON) -m venv $(RIVALS_VENV)
	$(RIVALS_VENV)/bin/pip install --quiet --disable-pip-version-check '$(TORCH)'
	-$(RIVALS_VENV)/bin/pip install --quiet --disable-pip-version-check '$(TORCH)' 'flwr[simulation]>=1.41,<1.42'
	-$(RIVALS_VENV)/bin/pip install --quiet --disable-pip-version-check '$(TORCH)' 'pfl[pytorch]'
	touch $@
