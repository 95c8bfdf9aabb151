# trimtab: `make run` does the main job, `make test` runs the whole suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := agent balancer client collector console wire

.PHONY: run venv test check bench fuzz build deb clean

run: venv
	@exec $(BIN)/python -m trimtab.console.local --state-dir var $(ARGS)

venv: $(VENV)/made

$(VENV)/made: pyproject.toml constraints.txt
	@mkdir -p links/trimtab  # an unpacked sdist has no links
	@for p in $(PACKAGES); do \
	  test -L links/trimtab/$$p || ln -s ../../$$p links/trimtab/$$p; done
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install \
	  --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

test: venv
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: venv
	$(BIN)/ruff check .
	$(BIN)/ruff check --select TID251 links/trimtab/*
	$(BIN)/ruff format --check .
	$(BIN)/mypy links/trimtab tests bench packaging

bench: venv
	$(BIN)/python bench/footprint.py
	$(BIN)/python bench/scaling.py
	$(BIN)/python bench/signals.py
	$(BIN)/python bench/soak.py

# Twelve minutes of hostile input; SEED=$$RANDOM for another run.
SEED ?= 1
fuzz: venv
	$(BIN)/python bench/fuzz_wire.py --seconds 120 --seed $(SEED)
	$(BIN)/python bench/fuzz_collector.py --seconds 600 --seed $(SEED)

build: venv
	$(BIN)/python -m build --outdir dist

deb: venv
	$(BIN)/python packaging/deb/build.py --output dist

clean:
	rm -rf $(VENV) var dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
