# Every target sets up what it needs: `.venv` is made from uv.lock, and made again when
# pyproject.toml or uv.lock changes. Nothing else has to be installed by hand but Python.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Test processes at a time: more than processors where tests wait for brokers and JVMs.
CORES := $(shell nproc)
JOBS ?= $(shell echo $$(( 2 * $(CORES) < 8 ? 2 * $(CORES) : 8 )))
# Which fault (kill, power, damage, disk, lock, native, index; ingest: of workers and
# their broker; cold: parts, exports, a worker that seals; spark: killed drivers, jobs; properties:
# N examples of each property of the unit tests; model: N examples of the model test; interrupts: at
# each N-th place of a call; letters, poison, avro: of dead letters, mutated records and schemas;
# operations: N rounds of what operators do, and kills; tool: beside Kafka's own tool; serve: of
# a server that is killed, frozen, damaged; owners: moves between roots, their servers killed; doors:
# Spark's reads, over a server too; commands: N random and mutated commands; events: N kills
# of a store of events; cluster: Spark's machines, killed in turn; lake: N random histories of a table
# and its owners, and of machines that are lost;
# matrix: cases that `make test` leaves out; empty for all files of tests/faults) and how often.
KIND ?=
N ?=
FAULTS_spark := tests/spark/jobs tests/broker/spark/test_kafka_format.py
FAULTS_ingest := $(addprefix tests/broker/worker/test_,worker_faults.py broker_faults.py transactions.py)
FAULTS_operations := tests/broker/worker/test_group_operations.py
FAULTS_tool := tests/broker/commands/test_kafka_tool.py
FAULTS_letters := $(addprefix tests/broker/dead_letters/test_,forwarding.py replay.py)
FAULTS_poison := tests/broker/dead_letters/test_poison.py
FAULTS_cold := tests/log/parts tests/log/sql tests/log/export tests/broker/worker/test_maintenance.py \
	$(addprefix tests/faults/test_,cold_kill.py cold_power.py cold_disk.py)
FAULTS_events := $(foreach room,store state,$(addprefix tests/events/$(room)/test_,kill.py model.py)) \
	$(addprefix tests/events/maintained/test_,model.py beside.py) \
	$(addprefix tests/events/,subscriptions/test_killed.py subscriptions/test_model.py \
	remembered/test_never_twice_or_missing.py front_ends/test_killed_server.py)
FAULTS_commands := tests/unit/typed_events/language/test_fuzz.py tests/events/front_ends/test_fuzz.py
FAULTS_lake := tests/lake tests/broker/lake tests/model/test_lake.py
FAULTS_serve := tests/log/serve/test_faults.py tests/spark/sink/test_server_kills.py
FAULTS_owners := tests/log/serve/test_moved_owners.py
# Each read of Spark over a server, too.
FAULTS_doors := tests/spark/source
FAULTS_cluster := tests/spark/cluster
FAULTS_properties := tests/unit tests/log
FAULTS_model := tests/model
FAULTS_interrupts := tests/log/writing/test_interruptions.py tests/log/expiry/test_expiry_faults.py \
	tests/unit/storage_core/write/test_shard.py
# Without a folder, so that all that pyproject.toml names are known to the process that reports.
FAULTS_matrix := -m thinned
# Which counts N sets; of some kinds one alone, whose folders have other campaigns as well.
COUNTS := $(addprefix SHARDLOG_,EXAMPLES $(addprefix FAULT_,KILLS POWER DAMAGE SPARK_KILLS NATIVE INDEX COLD \
	EXPORT AVRO POISON SERVE CLUSTER COMMANDS EVENTS LAKE) $(addprefix BROKER_,KILLS REBALANCES LETTERS OPERATIONS RESTARTS TRANSACTIONS LAKE))
COUNTS_properties := SHARDLOG_EXAMPLES
COUNTS_model := SHARDLOG_MODEL_EXAMPLES
COUNTS_interrupts := SHARDLOG_INTERRUPT_EVERY

# Tests, demo and benchmarks start hundreds of processes; each saves half a second of compiling.
export PYTHONDONTWRITEBYTECODE :=
# NumPy's threads for algebra, of which nobody has any, take 30 ms of each.
export OPENBLAS_NUM_THREADS := 1

BIN := .venv/bin
STAMP := .venv/.made-from-lock
SOURCES := $(wildcard storage_core connectors streaming_jobs typed_events pyspark_shardlog.py hatch_build.py demo examples tests bench)
# The compiled library: what it is made of, and whether it can be. Without a compiler all works too.
NATIVE := connectors/kafka/native
CC_FOUND := $(shell command -v $(CC))
PYTEST := $(BIN)/pytest -n $(JOBS) --dist loadgroup
# Temporary folders of tests lie in memory where 4 GiB are free there and programs may run, which
# containers often forbid: no claim of theirs is one of a real disk. Faults by hand stay on the disk.
PLACE_KIB_MIN := 4194304
IN_PLACE = free=$$(df -k --output=avail /dev/shm 2>/dev/null | tail -n 1) || free=0; \
	place=$${TMPDIR:-/tmp}; if (( $${free:-0} >= $(PLACE_KIB_MIN) )) \
		&& ! grep -q ' /dev/shm [^ ]* [^ ]*noexec' /proc/mounts; then place=/dev/shm; fi; \
	place=$$(mktemp -d -p "$$place" shardlog-XXXX); \
	trap 'rm -rf "$$place" || echo "some of $$place is left"' EXIT; TMPDIR=$$place
# Bytecode of all packages and of ours is made once, in 8 s: where none is written, in containers
# often, `shardlog` starts in half the time.
UV_ENV := UV_COMPILE_BYTECODE=1 UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never
# What all packages take in uv's cache, unpacked. Who tells of it is behind uv, not uv behind it: what
# a shell starts in the background hears no Ctrl-C, and would go on with .venv.
PACKAGES_MB := 2700
# The library lies in the tree: that uv built it once does not say that it is there.
REBUILT := --reinstall-package shardlog

# The interpreter to build on; `make PYTHON=/path/to/python3 setup` chooses another.
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { command -v "$$name"; break; }; done)

.PHONY: help setup fmt check quick test demo docs faults mutants walks spark-versions bench wheel clean

help: ## List the targets.
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) \
		| while IFS=$$'\t' read -r name text; do printf '  make %-14s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## Make .venv with everything that the other targets need.

$(STAMP): pyproject.toml uv.lock hatch_build.py $(wildcard $(NATIVE)/*.[ch])
	@{ python='$(PYTHON)'; \
	if [[ -z $$python ]]; then \
		echo 'shardlog needs Python 3.11 or later, and PATH has none. Get it with one of'; \
		echo '  apt-get install python3.11 python3.11-venv'; \
		echo '  pyenv install 3.11'; \
		echo '  uv python install 3.11'; \
		echo 'or name one: make PYTHON=/path/to/python3 setup'; \
		exit 1; \
	fi; \
	if ! uv=$$(command -v uv); then \
		uv=$(BIN)/uv; \
		if ! "$$python" -m venv .venv; then \
			echo "$$python lacks its venv module; on Debian: apt-get install python3-venv"; \
			exit 1; \
		fi; \
		pinned=$$(sed -n '/^name = "uv"$$/{n;s/version = "\(.*\)"/\1/p}' uv.lock); \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$$pinned"; \
	fi; \
	cache=$$("$$uv" cache dir); \
	cached() { du -sm "$$cache" 2>/dev/null | cut -f1 || true; }; \
	before=$$(cached); before=$${before:-0}; \
	tell_progress() { told=0; while sleep 1 && kill -0 $$$$ 2>/dev/null; do \
		new=$$(( $$(cached) - before )); \
		if [[ -t 2 && $$new -gt 5 ]]; then printf '\r  downloading and unpacking packages: %4d of $(PACKAGES_MB) MB' "$$new"; \
		elif (( new / 250 > told )); then told=$$(( new / 250 )); \
			echo "  downloading and unpacking packages: $$new of $(PACKAGES_MB) MB"; fi; \
	done; }; \
	echo "making .venv from uv.lock; what is cached in $$cache is not downloaded again"; \
	[[ -f .venv/pyvenv.cfg || -L .venv ]] || rm -rf .venv; \
	tell_progress & progress=$$!; \
	stop_telling() { { kill $$progress && wait $$progress; } 2>/dev/null || true; [[ ! -t 2 ]] || printf '\r\033[K' >&2; }; \
	trap stop_telling EXIT; \
	if ! $(UV_ENV) UV_PYTHON="$$python" "$$uv" sync --frozen --quiet $(REBUILT); then \
		stop_telling; \
		echo '.venv is not complete; the next make goes on with it'; \
		echo 'without a network, where all packages are cached: UV_OFFLINE=1 make setup'; \
		exit 1; \
	fi; \
	stop_telling; \
	$(BIN)/python -m compileall -q $(wildcard storage_core connectors streaming_jobs typed_events) || true; \
	new=$$(( $$(cached) - before )); \
	if (( new > 5 )); then told=": $$new MB of packages are new in the cache"; \
	elif (( before > 5 )); then told=': all packages were cached'; else told=; fi; \
	echo ".venv is ready$$told"; } >&2
	@touch $@

fmt: $(STAMP) ## Format the code and mend what ruff can mend.
	$(BIN)/ruff check --fix --exit-zero $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

check: $(STAMP) ## Check style, formatting, types, spelling, project file, lock and C; changes nothing.
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy $(SOURCES)
	$(BIN)/codespell
	$(BIN)/validate-pyproject pyproject.toml
	$(BIN)/uv lock --check
	$(if $(CC_FOUND),$(CC) -std=c11 -O2 -Wall -Wextra -Werror -fsyntax-only $(NATIVE)/*.c,@echo 'no $(CC): C is not checked')

quick: $(STAMP) ## Run the tests of units and of the log that a change reaches, and tidy, below a minute.
	@$(IN_PLACE) SHARDLOG_EXAMPLES=10 $(BIN)/python -m tests.touched -n $(CORES) --dist loadgroup -m 'not fuse and not slow'

test: $(STAMP) ## Run every test; faults that need FUSE are named when they cannot run.
	@$(IN_PLACE) $(PYTEST)

demo: $(STAMP) ## Show the whole way: Kafka, two workers, a lost disk, a lake, Spark, SQL; KEEP=1 leaves the page up.
	$(BIN)/python -m demo $(if $(KEEP),--keep)

faults: $(STAMP) ## Run the fault tests: N=500 sets every count, KIND=damage runs one kind.
	$(if $(filter properties,$(KIND)),,SHARDLOG_EVERY_CASE=1) \
		$(if $(N),$(addsuffix =$(N),$(or $(COUNTS_$(KIND)),$(COUNTS)))) $(PYTEST) -v --durations=0 --timeout 0 \
		$(if $(KIND),$(or $(FAULTS_$(KIND)),tests/faults/test_$(KIND).py),tests/faults)

mutants: $(STAMP) ## Put one-line bugs into a copy one at a time, and see each caught; NAME=… runs one.
	$(BIN)/python -m tests.mutants --jobs $(CORES) $(if $(TREE),--tree $(TREE)) $(NAME)

walks: $(STAMP) ## Count the files and functions that tiny runs enter; WALK=seal lists those of one.
	$(BIN)/python -m tests.walks $(if $(WALK),--files $(WALK))

spark-versions: $(STAMP) ## Run the tests of Spark on each PySpark that is supported; VERSION=4.0.5 on one.
	@$(IN_PLACE) $(BIN)/python -m tests.versions --jobs $(CORES) $(VERSION)

docs: $(STAMP) ## Write what documents take from docstrings: the list of modules, numbered steps.
	$(BIN)/python -m tests.tidy.documents

bench: $(STAMP) ## Measure against plain RocksDB and raw files; fails when a row misses its limit.
	$(BIN)/python -m bench

wheel: $(STAMP) ## Build the wheel in dist/, with the compiled library where there is a compiler.
	$(BIN)/uv build --wheel --quiet
	@ls dist/*.whl

clean: ## Remove .venv, caches and what a build left.
	rm -rf .venv .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist $(NATIVE)/*.so
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +
