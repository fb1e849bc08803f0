# Everything runs in .venv, which the first command that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Code is compiled once, not by every process that a test starts.
ONE_THREAD := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-slow test-deployment test-browser check docs bench clean wheel sbom lock lock-check

demo: .venv/.ready
	$(BIN)/confrere demo

test: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

# R is installed where that is allowed, as the browser below.
test-slow: .venv/.ready
	@command -v Rscript >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends r-base-core >/dev/null; } || true
	$(PIP) --editable "./federation[flare]" --editable ".[mlflow]"
	$(ONE_THREAD) $(BIN)/python -m pytest -m slow
	$(ONE_THREAD) $(BIN)/python -m pytest -m hypothesis --hypothesis-profile=default -n 2

test-deployment: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -m deployment -k "not namespaces" tests/wire

# A browser is installed where that is allowed; where none can be had, the tests say so.
test-browser: .venv/.ready
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null; } || true
	$(ONE_THREAD) $(BIN)/python -m pytest -m browser tests/faces

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/private_names.py
	$(ONE_THREAD) $(BIN)/python -m benchmarks.ratchet

docs: .venv/.ready
	$(PIP) --group docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m benchmarks

# Three wheels and their sources: the library, what is between organisations, the papers. The same bytes
# every time: nothing of the machine or the moment is in them.
wheel: .venv/.ready
	$(PIP) --group ship
	rm -rf dist
	for part in . federation research; do PIP_CONSTRAINT=constraints.txt $(BIN)/python -m build --outdir dist $$part || exit 1; done
	$(BIN)/twine check --strict dist/*

# What a party installs, as CycloneDX.
sbom: .venv/.ready
	$(PIP) --group ship
	mkdir -p dist
	$(BIN)/cyclonedx-py requirements locks/party.txt --pyproject pyproject.toml --of JSON --output-reproducible -o dist/confrere.cdx.json

LOCK := $(BIN)/uv pip compile -q --python-version 3.11 --generate-hashes --no-header --no-annotate \
	--no-emit-index-url --no-emit-find-links -c constraints.txt

lock: .venv/.ready
	$(PIP) --group ship
	$(LOCK) pyproject.toml federation/pyproject.toml --extra accounting --extra dashboard --extra plot --extra sql \
	  --no-emit-package confrere --no-emit-package confrere-federation -o locks/party.txt
	echo hatchling | $(LOCK) - -o locks/build.txt

# Installs what is locked, each file by its hash, and the wheels on top, in an environment of its own.
lock-check: wheel
	rm -rf .venv-locked && $(PYTHON) -m venv .venv-locked
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: -r locks/party.txt
	.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps dist/confrere-*.whl dist/confrere_federation-*.whl
	.venv-locked/bin/python -m pip check
	.venv-locked/bin/confrere version

.venv/.ready: pyproject.toml federation/pyproject.toml research/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".[accounting,dask,dashboard,federation,plot,sql]" --editable ./federation --editable ./research --group dev
	touch $@

clean:
	rm -rf .venv .venv-locked dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis confrere-out
