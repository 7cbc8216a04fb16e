# One command each. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Twice the cores: many tests wait for other processes.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
SEARCHES := tests/kernels tests/test_placing.py tests/service/test_fixed.py tests/multileaving/test_properties.py tests/service/test_crash.py tests/service/http/test_openapi.py

.DEFAULT_GOAL := help
.PHONY: help install run test static lint types contracts unit processes data bits browser clients image site engines lockstep neural bench soak docs tables links dist format clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/python
	@echo "installing duelrank into $(VENV) ..."
	@$(PIP) --editable '.[plot,serve,client]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	@echo "installing duelrank and its development tools into $(VENV) ..."
	@$(PIP) --editable '.[dev]'
	@touch $(VENV)/.core $@

install: $(VENV)/.dev ## prepare .venv with everything

run: $(VENV)/.core ## compare the six algorithms under three users on the synthetic set, with a report
	@echo "six algorithms, three users, one synthetic data set; results go to results/quick ..."
	@$(BIN)/duelrank reproduce quick

test: $(VENV)/.dev ## lint, types, import contracts and all tests but those of processes, data, bits, browser, clients, image, site, engines, lockstep and PyTorch
	@$(MAKE) --no-print-directory --jobs=2 unit static

static: lint types contracts

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports --no-logo

unit: export PYTHONDONTWRITEBYTECODE = # hundreds of processes would compile all sources anew
unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(WORKERS) --quiet

processes: export PYTHONDONTWRITEBYTECODE =
processes: $(VENV)/.dev ## tests of several processes: workers, clusters, services, databases that are killed, hang, or come back
	$(BIN)/python -m pytest -n $(WORKERS) --quiet -m processes tests

data: export PYTHONDONTWRITEBYTECODE =
data: $(VENV)/.dev ## tests on real data sets: published numbers; skipped where there are none in DUELRANK_DATA
	$(BIN)/python -m pytest -n $(WORKERS) --quiet -m data tests

browser: export PYTHONDONTWRITEBYTECODE =
browser: $(VENV)/.dev ## tests of the pages in a real browser; skipped where there is no Chromium
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/browser

clients: export PYTHONDONTWRITEBYTECODE =
clients: $(VENV)/.dev ## programs and generated clients in JavaScript, TypeScript, Java and PHP; each skipped where its language is absent
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/clients

image: export PYTHONDONTWRITEBYTECODE =
image: $(VENV)/.dev ## build the container image with buildah on a Debian base, and start it; needs root and debootstrap, and takes minutes
	$(BIN)/python -m pytest -n 0 --quiet --timeout=3600 tests/image

bits: export PYTHONDONTWRITEBYTECODE =
bits: $(VENV)/.dev ## the same bits on other processors: kernels are compiled for four of them
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/bits

lockstep: export PYTHONDONTWRITEBYTECODE =
lockstep: $(VENV)/.dev ## tests of the lockstep engine, on JAX for CPU; skipped where there is no JAX
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/lockstep

$(VENV)/.torch: $(VENV)/.dev
	@echo "installing PyTorch into $(VENV), on Linux 5.6 GB ..."
	@$(PIP) --editable '.[dev,torch]'
	@touch $@

neural: export PYTHONDONTWRITEBYTECODE =
neural: $(VENV)/.torch ## tests of networks in PyTorch, which it installs first (on Linux 5.6 GB)
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/adapters/test_torch.py

engines: export PYTHONDONTWRITEBYTECODE =
engines: $(VENV)/.dev ## exported models in real search engines; skipped without Java and Maven, or fails if DUELRANK_ENGINES=required; OpenSearch needs DUELRANK_OPENSEARCH
	$(BIN)/python -m pytest -n $(WORKERS) --dist=loadfile --quiet tests/engines

bench: $(VENV)/.dev ## measure impressions, the reader, compiling, memory, workers, results, stores and the service
	$(BIN)/python benchmarks/impressions.py
	$(BIN)/python benchmarks/reader.py
	$(BIN)/python benchmarks/compile_time.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/scaling.py
	$(BIN)/python benchmarks/results.py
	$(BIN)/python benchmarks/storage.py
	$(BIN)/python benchmarks/bench_service.py

soak: $(VENV)/.dev ## survival, for minutes: kill -9 under load, a restarted database, thousands of odd requests and examples
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python benchmarks/soak.py --only processes --processes 4 --minutes 1
	DUELRANK_SOAK=20 $(BIN)/python -m pytest -n $(WORKERS) --quiet --timeout=3600 $(SEARCHES)

docs: tables ## build the site into build/site, with its notebooks; any warning is an error
	@rm -rf build/site
	@$(BIN)/python -m sphinx -W --keep-going --quiet --fresh-env -j auto -d build/doctrees docs build/site
	@! grep -rlE '<(script|link|img)[^>]* (src|href)="(https?:)?//' build/site --include='*.html' || { echo "these pages need another machine"; exit 1; }
	@echo "open build/site/index.html"

site: export PYTHONDONTWRITEBYTECODE =
site: docs ## tests of the built site in a real browser, from its folder; skipped where there is no Chromium
	$(BIN)/python -m pytest -n $(WORKERS) --quiet tests/site

tables: $(VENV)/.dev ## write docs/algorithms.md and the tables of docs/export.md anew, from the registries
	@$(BIN)/duelrank list --markdown --results docs/league.csv > docs/algorithms.md.new && mv docs/algorithms.md.new docs/algorithms.md
	@$(BIN)/python docs/generated.py docs/export.md

links: $(VENV)/.dev ## ask the addresses that the site links to; needs the internet (links within the site are checked by make docs)
	$(BIN)/python -m sphinx -b linkcheck -D nb_execution_mode=off --quiet -d build/doctrees docs build/links

dist: $(VENV)/.dev ## build the source distribution and the wheel from it, and check both: tests of the one read what is in the other
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl
	rm -rf build/sdist build/wheel && mkdir -p build/sdist
	tar -xzf dist/*.tar.gz -C build/sdist --strip-components=1
	$(BIN)/python -m zipfile -e dist/*.whl build/wheel
	cd build/sdist && PYTHONPATH=../wheel $(abspath $(BIN))/python -m pytest -n 0 --quiet tests/test_packaging.py tests/test_conventions.py

format: $(VENV)/.dev ## format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## remove the virtual environment, all caches and what was built
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -prune -exec rm -rf {} +
