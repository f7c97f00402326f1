# Every target sets up what it needs; `make setup` is instant when nothing changed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNTIME := $(if $(CUDA),cuda,cpu)
STAMP := $(VENV)/.installed-$(RUNTIME)

.PHONY: setup demo test test-slow bench
setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(if $(CUDA),$(BIN)/pip uninstall -q -y onnxruntime,)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[$(RUNTIME),dev]'
	rm -f $(VENV)/.installed-* && touch $@

demo: setup
	$(BIN)/pipeline run --config pipeline.toml --run demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check -q .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2

test-slow: setup
	$(BIN)/python -m pytest -m slow -n 2 --dist loadfile

bench:
	@echo "Each benchmark prints its tables; benchmarks/results/ says which command made which figure:"
	@grep -l '^if __name__' benchmarks/*.py | sed 's|/|.|; s|^|  $(BIN)/python -m |; s|\.py$$||'
