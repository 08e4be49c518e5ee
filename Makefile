# `make demo` and `make test` do all set-up themselves. Everything lands in .venv; delete it to start over.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
DEMO := results/demo

.PHONY: demo test test-slow speed lint clean

# A collection of its own: these results never pass for those of `oodbench run`.
demo: .venv/installed
	mkdir -p $(DEMO) && echo demo > $(DEMO)/COLLECTION
	$(BIN)/oodbench run --suite digits-c --methods all --seeds 0,1,2 --results $(DEMO)

test: .venv/installed-dev
	$(BIN)/python -m pytest -m "not slow" -n auto --dist worksteal

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m slow

# Measures on an otherwise idle machine and writes docs/performance.md. Corruptions need another Python, with the package
# imagecorruptions: make speed PEER=peer/bin/python
speed: .venv/installed-dev
	$(if $(PEER),PEER=$(PEER)) $(BIN)/python benchmarks/speed/report.py

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
