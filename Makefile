# Two commands do all the set-up: `make demo` and `make test`. Another interpreter: make test PYTHON=/path/to/python3
PYTHON ?=
VENV := .venv
RUN := $(VENV)/bin/python
CANDIDATES := $(if $(PYTHON),'$(PYTHON)',python3 python3.11 python3.12 python3.13 python3.14 python)

# Stamps say what is installed. The install is editable: only these two files make a new one necessary.
MADE := $(VENV)/made
CORE := $(VENV)/core
DEV := $(VENV)/dev
BENCH := $(VENV)/bench
FLEET := $(VENV)/fleet
DOCS := $(VENV)/docs
INPUTS := pyproject.toml constraints.txt
comma := ,
# More than the two processors of CI: many tests wait for streams and for other processes.
WORKERS := 3

.NOTPARALLEL: # two pips in one environment would break it
.PHONY: help demo test test-all coverage check docs reference bench sabotage clean

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1	\2/p' Makefile | expand -t 16

demo: $(CORE) ## install the core and run a federation of 100 clients under secure aggregation
	$(VENV)/bin/tacit run examples/digits.yaml

test: $(DEV) ## install and run the tests, without the slow ones
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal

coverage: $(DEV) ## branch coverage of src/ by the tests without the slow ones
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term

test-all: $(DEV) $(FLEET) ## install Ray, Flower and Opacus too, and run all tests
	$(RUN) -m pytest -n $(WORKERS) --dist worksteal -m "" --hypothesis-profile=explore

check: $(DEV) ## formatting, lint, types, dead names, sizes and the direction of imports
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(RUN) -m mypy
	$(VENV)/bin/vulture
	$(RUN) .ci/sizes.py
	$(VENV)/bin/lint-imports --no-logo

docs: $(DOCS) ## build the site into build/site, in English and Chinese
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet
	$(RUN) -m pages.offline build/site

reference: $(DEV) ## write the pages that are generated from the code
	$(RUN) -m pages

bench: $(BENCH) ## install the peers, run all benchmarks, and store the results for docs/benchmarks.md and the READMEs
	$(RUN) -m bench all --store docs/benchmarks $(if $(DATA),--data $(DATA)); status=$$?; $(RUN) -m pages benchmarks.md ../README.md ../README.zh-CN.md && exit $$status

sabotage: $(DEV) ## plant known faults in copies of the package, and see that tests and audits notice each
	$(RUN) -m bench sabotage

clean: ## remove the environment and everything that was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call install,EXTRA): install what was tested, with the extra in brackets.
# The stamp of the environment is away while pip works. If pip is interrupted it stays away, so that the next command
# starts from an empty environment. `mv` keeps its date, so that the stamps of earlier installs stay valid.
define install
@mv $(MADE) $(VENV)/unfinished
$(RUN) -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.$(1)'
@mv $(VENV)/unfinished $(MADE)
endef

$(CORE): $(MADE) $(INPUTS)
	$(call install,)
	@touch $@

$(DEV): $(MADE) $(INPUTS)
	$(call install,[dev$(comma)torch$(comma)fast$(comma)export$(comma)parquet$(comma)sql$(comma)hf])
	@touch $(CORE) $@

$(FLEET): $(MADE) $(INPUTS)
	$(call install,[ray$(comma)flower$(comma)claims])
	@touch $(CORE) $@

$(DOCS): $(MADE) $(INPUTS)
	$(call install,[docs])
	@touch $(CORE) $@

$(BENCH): $(MADE) $(INPUTS)
	$(call install,[bench$(comma)fast$(comma)flower$(comma)ray])
	@touch $(CORE) $@

# Take the first interpreter that is new enough and can make environments. Names are tried by running them: a name on
# PATH may be a shim for a version that is not installed.
define make_environment
found=; chosen=; \
for candidate in $(CANDIDATES); do \
  version=$$("$$candidate" -c 'import platform; print(platform.python_version())' 2>/dev/null) || continue; \
  if ! "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
    found=$${found:-"Tacit needs Python 3.11 or newer, and $$candidate is $$version: install a newer one"}; \
  elif ! "$$candidate" -c 'import ensurepip, venv' 2>/dev/null; then \
    found="Python $$version ($$candidate) lacks venv or ensurepip: install them (on Debian or Ubuntu: apt install python3-venv)"; \
  else chosen=$$candidate; break; fi; \
done; \
if [ -z "$$chosen" ]; then \
  echo "$${found:-Tacit needs Python 3.11 or newer, and $(or $(PYTHON),python3) does not run: install one}, or name another with PYTHON=/path/to/python3." >&2; \
  exit 1; \
fi; \
echo "$$chosen -m venv $(VENV)"; \
"$$chosen" -m venv --clear $(VENV)
endef

# Make it again when its interpreter is gone or the folder was moved: an environment holds absolute paths.
ifneq ($(shell cat $(MADE) 2>/dev/null; test -x $(RUN) || echo gone),$(CURDIR))
.PHONY: $(MADE)
endif

$(MADE):
	@$(make_environment)
	@echo "$(CURDIR)" > $@
