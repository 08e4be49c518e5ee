# `make demo` and `make test` do all set-up themselves. Everything lands in .venv; delete it to start over.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
DEMO := results/demo

.PHONY: demo test test-slow lint clean

demo: .venv/installed
	$(BIN)/oodbench run --suite digits-c --methods all --seeds 0,1,2 --results $(DEMO)

test: .venv/installed-dev
	$(BIN)/python -m pytest -m "not slow" -n auto

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m slow

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info $(DEMO)

# torch comes first and pinned: whatever depends on it then takes the build that is there.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable ".[dev]"
	touch $@
