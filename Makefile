# The two commands are `make demo` and `make test`; they need Python, make and a package index, nothing else.
PYTHON ?= python3
VENV := .venv
DEMO := .venv-demo
BIN := $(VENV)/bin
SOURCES := pyproject.toml src/tfsmith/__init__.py
OP := $(wildcard native/bert_op/*.py native/bert_op/*.toml native/bert_op/src/*)
UNIT := $(filter-out tests/__pycache__ tests/docs tests/examples tests/hostile tests/native tests/support,$(patsubst %/,%,$(wildcard tests/*/))) $(wildcard tests/test_*.py)
STORIES := $(sort $(patsubst examples/%/story.py,%,$(wildcard examples/*/story.py)))

FUZZ_SECONDS ?= 300
FUZZ_TARGETS := graphdef text metagraph savedmodel riegeli index snappy version1 npz safetensors state recipe-toml recipe-pb replace engine verbs scan scan-zip scan-tar hdf5 keras scan-keras

# Tests start many processes; each would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

define LINT
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
endef

.PHONY: demo test lint check check-all fuzz fuzz-long audit sbom bench story stories docs wheel clean help

help:
	@echo "make demo    a venv, tfsmith with its engine, and the whole story on a small BERT, without TensorFlow"
	@echo "make test    a venv with everything that the tests need (the real TensorFlow too), and all tests"
	@echo "make check   lint, types, unit tests: under a minute"
	@echo "make check-all   what make check runs, and all other tests that need no TensorFlow"
	@echo "make fuzz    mutants of every format for some minutes (FUZZ_SECONDS=300), with atheris where it can be installed"
	@echo "make fuzz-long   100,000 mutants, each under 2 s and 300 MB"
	@echo "make sbom    writes the list of the wheel's dependencies (CycloneDX) to dist/"
	@echo "make audit   known vulnerabilities of what is installed, by pip-audit"
	@echo "make bench   benchmarks against peers, time and peak memory"
	@echo "make story NAME=linear_regression   a worked example, whole; one of: $(STORIES)"
	@echo "make stories   all of them"
	@echo "make docs    builds the documents as a site with search into site/; open site/index.html"
	@echo "make wheel   builds the wheel into dist/"

$(DEMO)/.ready: $(SOURCES)
	$(PYTHON) -m venv $(DEMO)
	$(DEMO)/bin/python -m pip install --quiet --upgrade pip
	$(DEMO)/bin/python -m pip install --quiet --editable '.[openvino]'
	@touch $@

demo: $(DEMO)/.ready
	$(DEMO)/bin/tfsmith demo

# With PINNED=1 nothing is installed whose hash is not in the file of pins, for the Pythons that it was made for.
$(VENV)/.check: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
ifdef PINNED
	$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: --requirement tools/check-requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
else
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[check]'
endif
	@touch $@

$(VENV)/.check-all: $(VENV)/.check
	$(BIN)/python -m pip install --quiet --editable '.[check-all]'
	@touch $@

$(VENV)/.test: $(VENV)/.check
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@

# The optional op is built for the TensorFlow of the venv; without a C++ compiler, what needs it says so and is skipped.
# Its tests build it in other ways, too: they take the objects that fit, and read what the compiler said.
OP_OBJECTS := $(CURDIR)/.pytest_cache/d/bert_op/objects
OP_LOG := $(VENV)/op.log
$(VENV)/.op: $(VENV)/.test $(OP)
	@if command -v "$${CXX:-g++}" >/dev/null; then \
		echo "$(BIN)/python -m pip install ./native/bert_op"; rm -f $(OP_LOG); \
		printf '[build]\nbuild_temp = $(OP_OBJECTS)\n' >$(VENV)/op.cfg; \
		DIST_EXTRA_CONFIG=$(CURDIR)/$(VENV)/op.cfg \
			$(BIN)/python -m pip install --quiet --log $(OP_LOG) --no-deps ./native/bert_op && touch $@; \
	else \
		echo "skipped: native/bert_op is not built, for there is no C++ compiler"; \
	fi

# The page of `view` is tested in a real Chromium, and built again with node to see that it is what its sources give.
# Without them, what needs them says so and is skipped.
web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	@if command -v npm >/dev/null; then \
		echo "npm ci, in web/"; cd web && npm ci --no-audit --no-fund --loglevel=error; \
	else \
		echo "skipped: web/ is not built, for there is no npm"; \
	fi

.PHONY: chromium
chromium:
	@if ! command -v chromium >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		echo "apt-get install chromium"; \
		(apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium) >/dev/null 2>&1 \
			|| echo "skipped: chromium cannot be installed"; \
	fi

$(VENV)/.docs: $(VENV)/.check
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@

check: $(VENV)/.check
	$(LINT)
	$(BIN)/python -m pytest -q -m "not tensorflow and not slow" -n 2 --dist loadfile $(UNIT)

check-all: $(VENV)/.check-all web/node_modules/.package-lock.json
	$(LINT)
	$(BIN)/python -m pytest -q -m "not tensorflow" -n 2 --dist loadfile tests

lint: $(VENV)/.test
	$(LINT)

# Types keep one core busy for a while; the compiler of the op, npm and apt work beside them.
test: $(VENV)/.test
	$(MAKE) --jobs 4 --output-sync=target lint $(VENV)/.op web/node_modules/.package-lock.json chromium
	$(BIN)/python -m pytest -n 2 --dist loadfile tests

# Where atheris has no wheel for this Python, our own loop does the same without looking for new paths.
fuzz: $(VENV)/.check-all
	@if $(BIN)/python -m pip install --quiet --only-binary :all: atheris 2>/dev/null; then \
		set -e; each=$$(($(FUZZ_SECONDS) / $(words $(FUZZ_TARGETS)) + 1)); \
		for name in $(FUZZ_TARGETS); do echo "=== $$name, $$each s"; \
			$(BIN)/python -m tests.fuzz.with_atheris $$name $$each 2>&1 | tail -n 2; done; \
	else \
		timeout $(FUZZ_SECONDS) $(BIN)/python -m tests.fuzz --mutants 1000000 || test $$? = 124; \
	fi

fuzz-long: $(VENV)/.check-all
	$(BIN)/python -m tests.fuzz --mutants 100000

sbom: wheel
	$(BIN)/python -m tools.make_sbom dist/tfsmith.cdx.json

# Asks a service on the network, so no other target needs it.
audit: $(VENV)/.check
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip_audit --skip-editable

bench: $(VENV)/.op
	$(BIN)/python -m benchmarks

story: $(VENV)/.op
	@test -f examples/$(NAME)/story.py || { echo "make story NAME=...; the stories are: $(STORIES)" >&2; exit 2; }
	$(BIN)/python -m examples.$(NAME).story

stories: $(VENV)/.op
	@set -e; for name in $(STORIES); do echo "=== $$name"; $(BIN)/python -m examples.$$name.story; done

docs: $(VENV)/.docs
	$(BIN)/python -m tools.make_site site
	@echo "site/index.html"

wheel: $(VENV)/.check
	$(BIN)/python -m build --quiet --outdir dist .

clean:
	rm -rf $(VENV) $(DEMO) web/node_modules build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis benchmarks/.models
