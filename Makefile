# Everything runs in .venv, which the first command that needs it makes.
PYTHON ?= python3
BIN := .venv/bin
PIP := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --disable-pip-version-check
ONE_THREAD := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-slow test-deployment check docs bench clean

demo: .venv/.ready
	$(BIN)/confrere demo

test: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n 2 --dist worksteal

test-slow: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -m slow

test-deployment: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -m deployment tests/scenarios

check: .venv/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python benchmarks/module_sizes.py
	$(BIN)/python benchmarks/private_names.py

docs: .venv/.ready
	$(PIP) --group docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: .venv/.ready
	$(ONE_THREAD) $(BIN)/python -m benchmarks

.venv/.ready: pyproject.toml research/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade "pip>=25.1"
	$(PIP) --editable ".[accounting,flower,plot]" --editable ./research --group dev
	touch $@

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis confrere-out
