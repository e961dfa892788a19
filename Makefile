# `make demo` and `make test` each work from an empty clone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test nightly lint docs wheel bench clean

demo: .venv/core
	$(BIN)/logicmp demo

test: .venv/dev lint
	$(BIN)/pytest -q -n 2 -m "not slow"

nightly: .venv/dev lint
	HYPOTHESIS_PROFILE=random $(BIN)/pytest -q -n 2

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/mypy

docs: .venv/dev
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_outputs.py

bench: .venv/dev
	$(BIN)/python -m benchmarks run

# the wheel alone, in an empty environment: no undeclared import can ship
wheel: .venv/dev
	rm -rf dist .venv-wheel
	$(BIN)/python -m build --wheel --outdir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	.venv-wheel/bin/logicmp --help
	.venv-wheel/bin/logicmp check examples/smokers.mln -e examples/smokers.db
	.venv-wheel/bin/logicmp infer -i examples/smokers.mln -e examples/smokers.db -q Smokes,Cancer
	.venv-wheel/bin/python -c "import logicmp, logicmp.testing"
	rm -rf .venv-wheel

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e ".[dev]"
	touch $@ .venv/core

clean:
	rm -rf .venv .venv-wheel dist build
