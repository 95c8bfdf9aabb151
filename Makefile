# trimtab: `make run` does the main job, `make test` runs the whole suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: run venv test check bench build clean

run: venv
	@exec $(BIN)/python -m trimtab.console.local --state-dir var

venv: $(VENV)/made

$(VENV)/made: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m pip install \
	  --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

test: venv
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: venv
	$(BIN)/ruff check links/trimtab/* tests bench
	$(BIN)/ruff format --check links/trimtab/* tests bench
	$(BIN)/mypy links/trimtab tests bench

build: venv
	$(BIN)/python -m build --outdir dist

clean:
	rm -rf $(VENV) var dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
