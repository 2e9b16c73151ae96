# `make help` lists the targets. Each one makes its environment from the committed lock first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.synced
UV := $(shell command -v uv 2>/dev/null || echo .uv/bin/uv)

# A company's own certificate authority is trusted as the system trusts it (the name of the setting changed with uv's age).
export UV_SYSTEM_CERTS := 1
export UV_NATIVE_TLS := 1

# The suite starts Python some sixty times. Without .pyc files each start compiles everything again, which doubles the CPU time of the whole.
unexport PYTHONDONTWRITEBYTECODE

# A worker gives freed memory back, and so stays below 700 MB.
export MALLOC_ARENA_MAX := 2
export MALLOC_TRIM_THRESHOLD_ := 1000000

# One worker for each core, and each file whole on one worker, because the tests of a file share expensive set-up. Folders run in the order given:
# long files come first, so that no worker is left with one at the end.
# (--dist loadgroup does nothing under pytest 9.2: pytest-xdist 3.8 writes its groups where test ids no longer lie.)
SPREAD := --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# Stories wait for processes more than they work: one worker more than there are cores.
STORY_WORKERS := $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)

# Folders with tests of tier 1. The others are not named in `make test`, so that no worker imports them.
TIER_1 := tests/bot tests/conversations tests/graph tests/golden tests/kb tests/project tests/properties tests/sandbox tests/soak tests/stories tests/tools

.DEFAULT_GOAL := help
.PHONY: help demo lab lab-down test test-all quick soak explore coverage bench-gates bench-b8 check docs fix audit sbom shots setup-system setup-rack clean

help: ## what can be done here
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.uv/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "RackMedic needs Python 3.11 or newer (PYTHON=/path/to/python3.11 make …)"; exit 1; }
	$(PYTHON) -m venv .uv || { echo "apt-get install python3-venv"; exit 1; }
	.uv/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r deploy/build-requirements.txt

$(STAMP): pyproject.toml uv.lock $(if $(findstring .uv,$(UV)),.uv/bin/uv)
	$(UV) sync -q --frozen --python $(PYTHON)
	@touch $@

demo: $(STAMP) ## a simulated GPU cluster, a local Slack and the real bot; open the printed address
	@$(BIN)/rackmedic demo

lab: $(STAMP) ## the same on a real rack: Slurm, sshd, systemd in containers (as root, after make setup-rack)
	@$(BIN)/python -m deploy.lab demo

lab-down: $(STAMP) ## end a rack whose terminal was closed; nothing of it stays behind
	@$(BIN)/python -m deploy.lab down

test: $(STAMP) ## tier 1, before each commit: all of kb, tools, graph and bot, and one story of each kind
	$(BIN)/pytest -n auto $(SPREAD) -m "not tier2 and not tier3" $(TIER_1) $(PYTEST_ARGS)

test-all: $(STAMP) ## tiers 1 and 2, before each merge: every story, mutant and real daemon; missing system parts skip with a reason
	$(BIN)/pytest -n $(STORY_WORKERS) $(SPREAD) -m "not tier3" $(PYTEST_ARGS)

quick: $(STAMP) ## kb, tools, graph and bot without processes and slow modules, in a minute
	$(BIN)/pytest -n auto $(SPREAD) -m "not processes and not slow and not tier2 and not tier3" tests/kb tests/tools tests/graph tests/bot $(PYTEST_ARGS)

soak: $(STAMP) ## tier 3: 300 incidents, kill -9, Redis killed, a full disk; an hour, one result line
	@$(BIN)/python -m tests.tier3 soak

explore: $(STAMP) ## tier 3: properties with 2,000 new examples; what it finds becomes an @example
	@$(BIN)/python -m tests.tier3 explore

coverage: $(STAMP) ## tier 3: what each check sees of each fault, measured anew and compared with docs/COVERAGE.md
	@$(BIN)/python -m tests.tier3 coverage

bench-gates: $(STAMP) ## tier 3: whether the benchmark itself is honest
	@$(BIN)/python -m tests.tier3 bench-gates

bench-b8: $(STAMP) ## the benchmark's 634 open cases without a model; fails where a case that was right is wrong
	@$(BIN)/python -m tests.bench.regressions

check: $(STAMP) ## formatting, lint, types, import contracts; the largest and smallest modules, for information
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@$(BIN)/python -m tests.project.size

docs: $(STAMP) ## the documentation as a site in dist/docs; a link that leads nowhere is an error
	$(BIN)/sphinx-build -qW --keep-going -c docs . dist/docs

fix: $(STAMP) ## format, apply automatic fixes, and renew generated documents and golden files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python -m tests.project.generated
	$(BIN)/python -m tests.golden

audit: $(STAMP) ## known vulnerabilities of everything locked, by pip-audit; asks the network, and what it cannot look up is a failure
	@$(BIN)/python -m tests.project.audit

sbom: $(STAMP) ## what ships, from uv.lock: CycloneDX in dist/sbom.cdx.json
	@mkdir -p dist
	@$(BIN)/python -m tests.project.sbom > dist/sbom.cdx.json

shots: $(STAMP) ## play the stories in a browser and renew the pictures
	$(BIN)/pytest tests/stories/test_browser.py tests/stories/test_repair.py tests/stories/test_batch.py
	cp out/screenshots/2-diagnosis.png deploy/screenshots/thread.png
	cp out/screenshots/6-approval.png deploy/screenshots/approval.png
	cp out/screenshots/9-three-hosts.png deploy/screenshots/several.png

setup-system: ## what the tests use beyond Python (Debian or Ubuntu, as root)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends redis-server openssh-server sudo chromium fonts-dejavu-core util-linux coreutils procps python3-venv prometheus-alertmanager
	command -v kubectl >/dev/null || apt-get install -y -qq --no-install-recommends kubernetes-client

setup-rack: ## what a real rack needs of the system (Debian or Ubuntu, as root)
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends systemd-container debootstrap zstd iproute2 util-linux openssh-client mount

clean: ## remove the environment and caches
	rm -rf $(VENV) .uv .mypy_cache .ruff_cache .pytest_cache .hypothesis out
