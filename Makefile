# Everything here works from a fresh checkout with Python 3.11, Node and make.

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := clang gfortran hwloc libmpich-dev libomp-dev libopenmpi-dev mpich openmpi-bin
NODE_MODULES := viz/web/node_modules/.package-lock.json
CHROMIUM := $(shell command -v chromium-headless-shell || command -v chromium)

# Where Python may not keep what it compiles, each of some thousand processes takes 0.2 s more.
unexport PYTHONDONTWRITEBYTECODE

# Six at a time, as half of their time tests wait for browsers and processes.
TOGETHER := -p tests.shards --processes 6 --durations 20 -p tests.cpucost
# What computes, but for traces of real programs, which plain Python reads for minutes.
CORES := $(addprefix tests/,ad/calls ad/detectors ad/analysis ad/handoff/test_opencalls.py \
	ad/handoff/test_flightrecorder.py core/kernels core/statistics core/calls pserver/state capture/formats/test_jsontext.py \
	provenance/store/test_encode.py) \
	--ignore tests/ad/analysis/test_real_trace.py --ignore tests/ad/analysis/test_wholetrace.py

.PHONY: help demo test test-page test-all test-cores coverage thorough slow-pages live soak faults chaos faults-nodes fuzz-api check check-python check-page docs install web generated screenshots clean dist benchmark benchmark-dashboard benchmark-transports performance detection packages chromium

help: ## This list.
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

demo: install ## Watch a recorded MPI program over SST, then a live one through files, each with known delays.
	$(BIN)/python examples/demo.py

test: install chromium ## All tests, those of the cores once more with their kernels as plain Python.
	$(MAKE) --no-print-directory --jobs 2 test-all test-page test-cores

test-all:
	$(BIN)/python -m pytest $(TOGETHER)

# Beside all tests: it computes where those wait (together they leave two cores idle for 5 % of the time).
# What it prints comes at its end, in one piece, so that the last lines are those of all tests.
test-cores:
	@{ NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -q --cov --cov-report= \
		-m 'not soak and not thorough and not compiled' $(CORES) && $(BIN)/python -m tests.rooms; } \
		>$(VENV)/cores.log 2>&1 && echo "cores as plain Python:" && tail -8 $(VENV)/cores.log \
		|| { cat $(VENV)/cores.log; false; }

test-page: $(NODE_MODULES) ## Tests of the page's own modules.
	cd viz/web && npm test --silent

coverage: install chromium ## How much of each room all tests run; twenty minutes.
	$(BIN)/python -m pytest --cov --cov-report= $(TOGETHER)
	$(BIN)/python -m tests.rooms --all

thorough: install chromium ## Tests that repeat others for further values, faults and machines; ten minutes.
	$(BIN)/python -m pytest -m thorough -p tests.shards --processes 3

slow-pages: install chromium ## Tests of pages, whose answers come late, in another order each time, and whose scripts are slow.
	CHIMBUKO_SLOW_ANSWERS_MS=1500 CHIMBUKO_SLOW_SCRIPTS=6 $(BIN)/python -m pytest -m 'not soak' --timeout 600 \
		-p tests.shards --processes 2 $(addprefix tests/viz/,calls evident incident overview pages)

live: install ## An MPI program beside a real TAU, with known delays: what is found, lost and paid; twelve minutes.
	$(BIN)/python -m benchmarks.live

soak: install ## Memory of all processes for half an hour after a quarter of one; all around the application is killed, stopped and slowed.
	$(BIN)/python -m tests.integration.memorysoak
	$(BIN)/python -m pytest -m soak tests/integration
	$(BIN)/python -m tests.fuzz --seconds 4200

faults: install ## Server, broker and agents are killed, stopped, cut off and starved, at other moments each time.
	CHIMBUKO_FAULTS_ROUNDS=10 $(BIN)/python -m pytest -m 'not soak' tests/integration/test_faults.py tests/pserver/test_exactly_once.py

chaos: install ## A hundred runs of a small program, over which signals come at random moments; ten minutes.
	$(BIN)/python -m tests.integration.chaos --runs 100
	$(BIN)/python -m tests.integration.chaos --runs 20 --site

faults-nodes: install ## Each part of a run on three nodes fails at each moment; prints a table. Half an hour.
	CHIMBUKO_NODE_FAULTS=all $(BIN)/python -m pytest -s -m thorough tests/integration/test_node_faults.py

fuzz-api: install ## The HTTP API is asked at random, rightly and wrongly, 300 times at each address.
	CHIMBUKO_FUZZ_EXAMPLES=300 $(BIN)/python -m pytest tests/viz/api/test_document.py

check: check-python check-page ## Style and types; TYPES='--package chimbuko' leaves out what only developers run.

check-python: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(TYPES)

check-page: $(NODE_MODULES)
	cd viz/web && npm run --silent typecheck && npm run --silent lint

# It takes Node.js and a compiler, and no environment of developers: pip makes a small one, and forgets it.
dist: web ## The wheel, dist/chimbuko-*.whl: it is installed without a checkout, Node.js or a compiler.
	rm -rf build
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

benchmark: install ## Events per CPU-second of an agent, cost of the tracer, speed of the store.
	$(BIN)/python benchmarks/agent.py
	$(BIN)/python benchmarks/tracer.py
	$(BIN)/python benchmarks/store.py

performance: install ## All figures of docs/internals/performance.md; twenty minutes on a machine that has nothing else to do.
	$(BIN)/python benchmarks/report.py

benchmark-dashboard: install chromium ## All figures of docs/internals/dashboard-performance.md; 45 minutes on a machine that has nothing else to do.
	$(BIN)/python benchmarks/report.py --document dashboard-performance

benchmark-transports: install ## All figures of docs/internals/transports.md; half an hour on a machine that has nothing else to do.
	$(BIN)/python benchmarks/report.py --document transports

detection: install ## Precision and recall of the detector against known truth; fails where it misses what is required.
	$(BIN)/python -m evaluation

install: $(VENV)/warm web ## The package with its web page, in a virtual environment of its own.

# What is used is compiled when it is first used: all of it would take 20 s. The folder of the sources stands in a
# path file: the finder of editable installs would take each Python that starts, thousands in tests, 19 of 33 ms.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip 'setuptools>=77'
	$(BIN)/python -m pip install --quiet --no-compile --no-build-isolation --config-settings editable_mode=compat \
		--editable '.[caliper,dev,docs,kernels,notebook,otf2,parquet,perfetto,postgresql]'
	touch $@

$(VENV)/warm: $(VENV)/installed
	$(BIN)/chimbuko warmup
	touch $@

LOCK := $(BIN)/uv pip compile --quiet --python-version 3.11 --generate-hashes --upgrade --no-header --no-annotate
docker/requirements.lock: pyproject.toml ## The packages of the container images, each with its version and hashes.
	printf 'mpich>=5.0\n' | $(LOCK) --extra postgresql --output-file $@ pyproject.toml -

docker/build.lock: docker/requirements.lock ## What their wheel is built with.
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(LOCK) --constraint docker/requirements.lock --output-file $@ -

screenshots: install chromium ## All pictures of the documents, from the recorded program.
	$(BIN)/python docs/screenshots.py

docs: $(VENV)/installed ## The documents as a site, build/docs/index.html, which needs no network; warnings are errors.
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet --builder html docs build/docs

generated: install ## Files that follow from others: the page's types, those of kernels, recipes, the public surface.
	$(BIN)/python recipes
	$(BIN)/python -m docs.publicsurface
	$(BIN)/python docs/pagetypes.py
	$(BIN)/python -m tests.core.kernels.calls

web: viz/static/index.html ## The dashboard's page.

WEB_SOURCES := $(shell find viz/web -path viz/web/node_modules -prune -o -type f -print)

$(NODE_MODULES): viz/web/package.json viz/web/package-lock.json
	cd viz/web && npm ci --silent --no-audit --no-fund
	touch $@

viz/static/index.html: $(NODE_MODULES) $(WEB_SOURCES)
	cd viz/web && npm run --silent build
	touch $@

# What comes with neither pip nor npm: where it cannot be installed, tests say what they would need.
packages: chromium ## Debian's packages without which some tests are skipped; takes root.
	@dpkg --status $(PACKAGES) >/dev/null 2>&1 || { \
		apt-get update && apt-get install --yes --no-install-recommends $(PACKAGES); } >/dev/null 2>&1 \
		|| echo "Tests that need these are skipped: apt-get install $(PACKAGES)" >&2

chromium:
ifeq ($(CHROMIUM),)
	@if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && apt-get install -y -qq chromium-headless-shell >/dev/null; \
	else \
		echo "The browser tests need chromium: ask for the package 'chromium' to be installed." >&2; exit 1; \
	fi
endif

clean: ## Remove what was built and installed here.
	rm -rf $(VENV) viz/static viz/web/node_modules build *.egg-info
