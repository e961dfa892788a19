# `make demo` and `make test` each work from an empty clone.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test nightly fuzz pythons wheels lint docs wheel bench web clean

demo: .venv/core
	$(BIN)/logicmp demo

test: .venv/dev .venv/browser lint
	$(BIN)/pytest -q -n 2 -m "not slow"

# Spark is half a gigabyte, and needs Java
nightly: .venv/dev .venv/browser lint fuzz pythons wheels docs
	$(PIP) -e ".[spark]"
	HYPOTHESIS_PROFILE=random $(BIN)/pytest -q -n 2

# other inputs every day; the seed is printed, and the inputs that fail are in fuzz-failures/
SEED ?= $(shell date +%Y%m%d)
fuzz: .venv/dev
	$(BIN)/python -m benchmarks fuzz plan --count 1000000 --seed $(SEED)
	$(BIN)/python -m benchmarks fuzz infer --count 100000 --seed $(SEED)
	$(BIN)/python -m benchmarks fuzz layer --count 10000 --seed $(SEED)
	$(BIN)/python -m benchmarks fuzz sparse --count 10000 --seed $(SEED)

# parse to plan on every supported Python that is installed; these rooms need no torch
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
BEFORE_TORCH := tests/parse tests/facts/test_db.py tests/plan/test_build.py tests/plan/test_steps.py \
  tests/plan/test_adjoint.py $(addprefix tests/normalize/test_,budget.py clauses.py cubes.py expand.py meet.py review.py)
pythons:
	for python in $(PYTHONS); do \
	  if ! $$python -c ""; then echo "$$python is not installed: skipped"; continue; fi; \
	  rm -rf .venv-python && $$python -m venv .venv-python && \
	  .venv-python/bin/pip install --quiet --disable-pip-version-check -c constraints.txt \
	    numpy opt_einsum typer rich safetensors pytest hypothesis lark pyyaml && \
	  .venv-python/bin/pip install --quiet --disable-pip-version-check --no-deps . && \
	  .venv-python/bin/logicmp check examples/smokers.mln -e examples/smokers.db && \
	  .venv-python/bin/logicmp explain examples/smokers.mln && \
	  .venv-python/bin/pytest -q $(BEFORE_TORCH) && \
	  .venv-python/bin/python -m benchmarks fuzz plan --count 2000 || exit 1; \
	done
	rm -rf .venv-python

# the built wheel with torch in an empty environment of every Python that is installed; names extras without wheels.
# Where constraints.txt's torch has no CPU build, this downloads several GB
wheels: .venv/dev
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist .
	$(BIN)/python .ci/wheels.py dist/*.whl $(PYTHONS)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/mypy

# the pages' own outputs, then the site in build/site
docs: .venv/docs
	$(BIN)/python docs/make_cli.py
	$(BIN)/python docs/make_outputs.py
	$(BIN)/python docs/make_site.py

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
	# the page of the playground is part of the wheel, and starts from it
	.venv-wheel/bin/pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[serve]"
	.venv-wheel/bin/python -c "from logicmp.serve.app import PAGE; assert (PAGE / 'vendor/codemirror.js').is_file()"
	rm -rf .venv-wheel

.venv/core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) -e ".[dev]"
	touch $@ .venv/core

# chromium for tests/serve/test_browser.py
.venv/browser: .venv/dev
	@if [ -n "$$CHROMIUM" ] || { command -v chromium || command -v chromium-browser || command -v google-chrome; } \
	  >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; \
	else echo "error: the tests of the playground need chromium: install it (apt-get install chromium as root), or set" \
	  "CHROMIUM to the path of the program" >&2; exit 1; fi
	touch $@

# the vendored parts of the page, from npm: CodeMirror as one file, and axe-core for the tests
web:
	cd web && npm ci --no-audit --no-fund && npm run build

.venv/docs: .venv/dev
	$(PIP) -e ".[docs]"
	touch $@

clean:
	rm -rf .venv .venv-wheel .venv-python dist build
