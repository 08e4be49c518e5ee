# `make demo` and `make test` do all set-up themselves. Everything lands in .venv; delete it to start over.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: demo test test-slow test-gpu soak speed readme docs notebooks lint clean

# Into results/demo, wherever the user's own results go.
demo: .venv/installed
	OODBENCH_DATA=.venv/data $(BIN)/oodbench demo --results results

test: .venv/installed-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m "not slow and not gpu" -n auto --dist worksteal  # compile tests once

test-slow: .venv/installed-dev
	$(BIN)/python -m pytest -m slow

# Skipped, with the reason, where there is no CUDA device.
test-gpu: .venv/installed-dev
	$(BIN)/python -m pytest -m gpu -rs tests/test_gpu.py

# Kills runs, damages files and runs hostile plugins, for minutes; status 1 if a number came out wrong or anything broke.
# How much of each, and which: make soak KILLS=1000 FILES=100000 GIVEN=100000 PLUGINS=100 SEED=1
# With WRITE=1 the counts go into docs/reliability.md.
KILLS ?= 100
FILES ?= 10000
GIVEN ?= 10000
PLUGINS ?= 100
SEED ?= 0
soak: .venv/installed-dev
	$(BIN)/python benchmarks/reliability/soak.py --kills $(KILLS) --files $(FILES) --given $(GIVEN) \
		--plugins $(PLUGINS) --seed $(SEED) $(if $(WRITE),--write)

# Measures on an otherwise idle machine and writes docs/performance.md. Corruptions need another Python, with the package
# imagecorruptions: make speed PEER=peer/bin/python
speed: .venv/installed-dev
	$(if $(PEER),PEER=$(PEER)) $(BIN)/python benchmarks/speed/report.py

# The table of README.md and the pictures in docs/, of the demo's results; needs chromium.
readme: demo
	$(BIN)/python benchmarks/readme/write.py

lint: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv build *.egg-info results/demo

# torch comes first and pinned: whatever depends on it then takes the build that is there.
.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) torch
	$(PIP) --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(PIP) --editable ".[dev]"
	-$(PIP) --editable ".[ray]"  # tests of it are skipped, with the reason, where it cannot be had
	touch $@

# The documentation site, into build/site. Nothing is fetched while it is built, nor by a browser that shows it.
docs: .venv/installed-docs
	$(BIN)/python docs/builder/pages.py build
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --config-file build/mkdocs.yml

# Runs the notebooks of the site and stores what they print and draw.
notebooks: .venv/installed-docs
	$(BIN)/python docs/builder/run_notebooks.py docs/notebooks/*.ipynb

.venv/installed-docs: .venv/installed
	$(PIP) --editable ".[docs]"
	touch $@
