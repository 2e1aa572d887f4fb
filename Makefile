# Everything one does with this repository. `make` alone lists the targets.

PYTHON := .venv/bin/python
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-autopilot demo-edge demo-fog demo-queries demo-failover demo-faults two-machines docker-images docker-demo docker-up docker-down test test-fast test-all bench bench-migration bench-compositions bench-faults bench-fog bench-edge bench-autopilot bench-twins bench-placement bench-plan bench-queries bench-recovery bench-uplink bench-broadcast bench-scale drill campaign lint export golden lock jar up down clean

help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-20s %s\n", $$1, $$2 }'

setup: $(STAMP) ## Install what is needed: .venv with all Python packages, and Java 17. The second time it does nothing.

$(STAMP): pyproject.toml requirements.lock infra/setup.sh
	@infra/setup.sh
	@touch $@

demo: setup ## Move a running job between two sites, with real departures, and judge that nothing was lost.
	@.venv/bin/towpath demo

demo-autopilot: setup ## Jobs leave ahead of a rush hour, a tunnel, an empty battery, a failing site; the same day without.
	@.venv/bin/towpath demo-autopilot

demo-edge: setup ## A train finds a flat wheel on board without a link, and delivers at stations; a job changes sides.
	@.venv/bin/towpath demo-edge

demo-fog: setup ## Jobs where the data is against all jobs at the cloud; then a pipeline that changes under load.
	@.venv/bin/towpath demo-fog

demo-queries: setup ## Queries over three airports, their job moving while answers flow; every answer is checked.
	@.venv/bin/towpath demo-queries

demo-failover: setup ## A site dies under load; its jobs go on at their standby, and it returns. Every result is checked.
	@.venv/bin/towpath demo-failover

demo-faults: setup ## Slow the workers of a Spark cluster down one by one, then the two sites of a handover.
	@.venv/bin/towpath demo-faults

docker-images: setup ## Build the images of services and sites, and the secrets of docker-compose.yml.
	@infra/docker/mesh.sh images

docker-demo: setup ## The main job moves between containers, one of which is killed; everything is taken away.
	@infra/docker/mesh.sh demo

docker-up: setup ## Run the mesh of docker-compose.yml: hub, services, two airports and a cloud as containers.
	@infra/docker/mesh.sh up

docker-down: setup ## Take that mesh away, with all that it stored.
	@infra/docker/mesh.sh down

two-machines: setup ## A job and its keys across machines without a shared directory, one behind a NAT; keys are stolen. Needs root.
	@PYTHONPATH=$(CURDIR)/tests $(PYTHON) tests/end_to_end/machines/two_machines.py

test: setup ## What must pass before a change is accepted, in 12 minutes: logic, and each promise of README and pages.
	@$(PYTHON) tests/parts.py

test-fast: setup ## Only the tests that start no server: unit, property, protocol and contract.
	@$(PYTHON) tests/parts.py fast

test-all: setup ## Every test there is, hours long, or the parts named in PART= (`make test-all PART="page mesh"`).
	@$(PYTHON) tests/parts.py $(or $(PART),--all)

bench: setup ## Measure throughput, latency and migrations; writes to tests/bench/results/.
	@$(PYTHON) tests/bench/run.py

bench-migration: setup ## Measure all strategies of migration on the same jobs and loads (SCALE=--quick or --full).
	@$(PYTHON) tests/bench/migration.py $(SCALE)

bench-compositions: setup ## Measure pipelines of up to 100 jobs: deploy, modify, delete, memory, registry (SCALE=--quick).
	@$(PYTHON) tests/bench/compositions.py $(SCALE)

bench-edge: setup ## Measure an edge node alone at up to 14,000 reports/s, beside IRONEDGE's figures (SCALE=--quick or --full).
	@$(PYTHON) tests/bench/run.py --only edge $(SCALE)

bench-uplink: setup ## Drain a backlog beside live reports, then ten minutes of faults on the link (SCALE="--backlog … --minutes …").
	@$(PYTHON) tests/bench/uplink.py $(SCALE)

bench-broadcast: setup ## Send one message to 1,000 devices at 50 sites, once for each site and once for each device (SCALE="--sites …").
	@$(PYTHON) tests/bench/broadcast.py $(SCALE)

bench-scale: setup ## Measure meshes of 10 to 100 sites, and of 1,000 scripted agents (SCALE="--sites 10,25 --agents 300").
	@$(PYTHON) tests/bench/scale.py $(SCALE)

bench-plan: setup ## Roll plans out on 50 to 200 gateways and on Spark clusters (SCALE=--quick, or --full for 10 runs).
	@$(PYTHON) tests/bench/run.py --only plans --only plan-clusters $(SCALE)

bench-placement: setup ## Simulate data placement and job placement beside what RAINBOW reports (SCALE=--quick).
	@$(PYTHON) tests/bench/run.py --only data-placement --only job-placement $(SCALE)

bench-autopilot: setup ## Simulate a year of three airports with the autopilot, and without, in ten minutes (SCALE=--quick).
	@$(PYTHON) tests/bench/run.py --only autopilot $(SCALE)

bench-twins: setup ## Stop an engine now and then, and measure results with a twin and without (SCALE=--quick or --full).
	@$(PYTHON) tests/bench/run.py --only twins $(SCALE)

bench-recovery: setup ## Measure losses by cause, and upgrades of a site and of the hub, under load (SCALE=--quick or --full).
	@$(PYTHON) tests/bench/run.py --only losses --only upgrades $(SCALE)

bench-queries: setup ## Measure queries: planning, sharing, samples, outliers, bytes over links, and the first answer (SCALE=--quick).
	@$(PYTHON) tests/bench/run.py --only queries --only query-links $(SCALE)
	@$(PYTHON) tests/bench/outliers.py $(SCALE)

drill: setup ## Every step of every operation meets every fault, for days; goes on where it was stopped; report in drill/report.json, delete it to begin again (SAMPLE=, SEED=).
	@.venv/bin/towpath drill $(if $(SAMPLE),--sample $(SAMPLE)) --seed $(or $(SEED),0) --continue --json drill/report.json

campaign: setup ## Break a mesh on purpose, 60 seeded runs over the scenarios; reports go to campaign/ (RUNS=, SEED=).
	@.venv/bin/towpath campaign --runs $(or $(RUNS),60) --seed $(or $(SEED),1)

bench-faults: setup ## Measure what fault rules cost, loaded and not loaded (SCALE=--quick or --full).
	@$(PYTHON) tests/bench/faults.py $(SCALE)

bench-fog: setup ## Measure how many emulated nodes this machine holds, with how many events/s (SCALE=--quick or --full).
	@infra/docker/mesh.sh with $(PYTHON) tests/bench/fog.py $(SCALE)

lint: setup ## Check style, format, types, layers, exported contracts, links between documents, and plain words.
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m pyright
	.venv/bin/lint-imports
	$(PYTHON) -m towpath.contracts.export --check
	$(PYTHON) tests/document_links.py
	$(PYTHON) tests/banned_words.py
	$(PYTHON) -m towpath.protocols.tables --check
	$(PYTHON) infra/supply/bill_of_materials.py --check

export: setup ## Write schemas, AsyncAPI, examples and reference from the contracts' models, tables from the strategies.
	$(PYTHON) -m towpath.contracts.export
	$(PYTHON) -m towpath.protocols.tables

golden: setup ## Keep what this version writes for the tests of the next: once with each release. Starts a mesh.
	@PYTHONPATH=$(CURDIR)/tests $(PYTHON) tests/golden_files.py

lock: setup ## Write requirements.lock for pyproject.toml, and the bill of materials (RENEW=1 takes the newest versions).
	@$(PYTHON) -m uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command "make lock" --quiet --output-file requirements.lock $(if $(RENEW),--upgrade)
	@$(PYTHON) infra/supply/bill_of_materials.py

jar: setup ## Compile the one class in Java, which is kept in the repository. Needs a JDK; nothing else here does.
	$(PYTHON) -m towpath.engines.spark.local_files

up: setup ## Start a mesh of the sites jfk and cloud (SITES=jfk,lga,cloud for others).
	@.venv/bin/towpath up $(if $(SITES),--sites $(SITES))

down: setup ## Stop the mesh. What it stored stays.
	@.venv/bin/towpath down

clean: ## Delete caches, build output and a mesh in ./.towpath. Keeps .venv and ~/.towpath.
	rm -rf .towpath build dist spark-warehouse .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -path ./.venv -prune -o -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +
	@echo "kept: .venv (delete it yourself to start over) and the meshes under ~/.towpath (towpath down)"
