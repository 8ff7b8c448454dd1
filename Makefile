# flinkish: `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
BIN := $(VENV)/bin
# Marks a finished installation; it is newer than the files that list the packages to install.
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
# Tests start hundreds of Python processes: cached bytecode saves a third of each start.
unexport PYTHONDONTWRITEBYTECODE

# Delta's jar in Spark's Ivy cache, which is in the home folder that Java finds (the user's, whatever HOME says). The file name
# contains both versions, so a changed version is fetched. Keep the versions equal to those in setup.cfg.
DELTA := io.delta:delta-spark_4.2_2.13:4.4.0
DELTA_JAR := $(shell eval echo ~$$(id -un))/.ivy2.5.2/jars/$(subst :,-,$(subst io.delta:,io.delta_,$(DELTA))).jar

# A Kafka broker for the tests; tests/kit/kafka_broker.py looks for it there.
KAFKA_JARS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flinkish/kafka-4.3.1
# Flink's command line for the tests, and what it starts Python scripts with; tests/server/test_flink_cli.py looks for them there.
FLINK_JARS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flinkish/flink-2.3.0
FLINK_PYTHON_JARS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flinkish/flink-python-2.3.0
# Spark's own Kafka source for the tests; tests/kit/spark_kafka.py looks for it there. The version is that of pyspark in setup.cfg.
SPARK_KAFKA_JARS := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/flinkish/spark-kafka-4.2.0

# House rules for flinkish/: each of clocks, random numbers and pickling is used in one module only (common/clock, ids, pickling).
banned = $(foreach name,$(2),"$(name)".msg = "$(1)",)
HOUSE_RULES := --isolated --target-version py311 --select TID251 \
	--per-file-ignores 'flinkish/common/clock.py:TID251' \
	--per-file-ignores 'flinkish/common/ids.py:TID251' \
	--per-file-ignores 'flinkish/common/pickling.py:TID251' \
	--config 'lint.flake8-tidy-imports.banned-api = { \
		$(call banned,take a Clock as an argument,time.time time.time_ns datetime.datetime.now datetime.datetime.utcnow \
			datetime.datetime.today datetime.date.today) \
		$(call banned,take an IdSource as an argument,uuid.uuid1 uuid.uuid4) \
		$(call banned,take a random.Random as an argument,random.choice random.randint random.random random.randrange \
			random.sample random.shuffle random.uniform) \
		$(call banned,use common/pickling.py,pickle cloudpickle) }'
# Modules whose docstrings have examples that are tested: the public API.
DOCTESTS := -p tests.kit.doctests --doctest-modules flinkish/common flinkish/table flinkish/udf flinkish/datastream flinkish/program flinkish/metrics flinkish/state
CODE := flinkish tests jobs docs .ci

# Prefix of commands that need Java. Java is found, or installed where possible; otherwise a message says what to install.
WITH_JAVA = JAVA_HOME=$$(.ci/java.sh) && export JAVA_HOME &&
MASTER ?= local[2]
ARGS ?=
PYTEST_ARGS ?=
# Two processes leave a third of two cores idle, as tests wait for JVMs and killed jobs. One has a Spark session: see tests/conftest.py.
TEST_PROCESSES ?= 3
# Tests write thousands of small files and have each on disk before they go on. In memory that takes no time; where 4 GB are free there.
IN_MEMORY := $(if $(TMPDIR),,$(shell df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "TMPDIR=/dev/shm"}'))
# Some tests run what they have written.
ifneq ($(shell grep -s '^[^ ]* /dev/shm [^ ]* [^ ]*noexec' /proc/mounts),)
IN_MEMORY :=
endif
# Unit tests wait for nothing: a process for each of two cores. Importing schemathesis takes a second, and they do not need it.
QUICK := tests/unit -q -n 2 --dist worksteal -p no:schemathesis --hypothesis-profile quick
# Tests start a hundred JVMs that live for seconds, so these are tuned to start quickly; that halves the time of the tests.
CLASSES := $(VENV)/classes.jsa

##@ Use

.PHONY: run
run: setup ## Run the main job, jobs/flight_delays.py, on real data
	@$(WITH_JAVA) $(BIN)/python jobs/flight_delays.py $(ARGS)

# A broker and its topics for trying things: make kafka in one terminal, make publish and make run ARGS='--kafka localhost:9092' in others.
KAFKA ?= localhost:9092

.PHONY: kafka
kafka: setup $(KAFKA_JARS) ## Start a Kafka broker at localhost:9092 to try things with, until Ctrl-C
	@$(WITH_JAVA) $(BIN)/python -m tests.kit.local_broker $(ARGS)

.PHONY: publish
publish: setup ## Fill a Kafka topic with flights, a year in six minutes (KAFKA=host:port, ARGS='--speed-up max')
	@$(BIN)/python jobs/publish_flights.py --kafka '$(KAFKA)' $(ARGS)

# The job takes few records in an epoch, so that there is something to see for some minutes.
SERVER_PORT ?= 8081
SERVER := $(BIN)/flinkish run -m localhost:$(SERVER_PORT) -d -Dexecution.epoch.max-records=200
MAIN_JOB_MODULES = $(shell echo $(filter-out jobs/flight_delays.py,$(wildcard jobs/flight_*.py)) jobs/command_line.py | tr ' ' ,)

.PHONY: server
server: setup ## Start a session cluster with the main job in it and print the address of its page (SERVER_PORT=8081, ARGS=...)
	@$(WITH_JAVA) $(BIN)/flinkish cluster start -d -Drest.port=$(SERVER_PORT) -Dhigh-availability.storageDir='$(CURDIR)/out/server'
	@$(SERVER) --py-files $(MAIN_JOB_MODULES) jobs/flight_delays.py --output '$(CURDIR)/out/flight_delays' $(ARGS)
	@echo 'Open http://localhost:$(SERVER_PORT) in a browser. To end server and job: $(BIN)/flinkish cluster stop -m localhost:$(SERVER_PORT)'

.PHONY: submit
submit: setup ## Submit a script to Spark: make submit JOB=jobs/x.py [MASTER=spark://...] [ARGS=...]
	@test -n "$(JOB)" || { echo "make submit needs a script: make submit JOB=jobs/socket_word_count.py" >&2; exit 2; }
	@test -f "$(JOB)" || { echo "make submit: there is no file $(JOB)" >&2; exit 2; }
	@$(WITH_JAVA) $(BIN)/flinkish submit --master '$(MASTER)' '$(JOB)' $(ARGS)

.PHONY: bench
bench: setup ## Measure speed and memory, as ratios (PYFLINK_PYTHON=, PYFLINK_KAFKA_JAR=, QUIX_PYTHON=: with other engines)
	@$(WITH_JAVA) $(BIN)/python -m tests.bench $(ARGS)

.PHONY: nexmark
nexmark: setup ## Measure the queries of Nexmark (ARGS='--queries q0,q5 --events 2000000 --with-spark --output figures.csv')
	@$(WITH_JAVA) $(BIN)/python -m jobs.nexmark $(ARGS)

.PHONY: soak
soak: setup ## Run 10,000 epochs and compare the first thousand with the last (about 40 minutes)
	@$(WITH_JAVA) $(BIN)/python -m tests.bench.soak $(ARGS)

##@ Develop

.PHONY: test
test: setup $(CLASSES) $(KAFKA_JARS) $(SPARK_KAFKA_JARS) $(FLINK_JARS) $(FLINK_PYTHON_JARS) ## Run all tests and list the slowest fifty (PYTEST_ARGS='-k name' selects some)
	@$(WITH_JAVA) $(IN_MEMORY) $(BIN)/python -m pytest tests -n $(TEST_PROCESSES) --dist loadgroup --durations 50 $(PYTEST_ARGS)

.PHONY: cluster-test
cluster-test: setup $(CLASSES) ## Kill parts of a standalone cluster and of YARN under jobs of three levels (half an hour; FLINKISH_SEED=n repeats)
	@$(WITH_JAVA) $(BIN)/python -m pytest tests/cluster -m 'cluster or not cluster' -s $(PYTEST_ARGS)

.PHONY: proof
proof: $(INSTALLED) ## Flip 1,000 bits of checkpoints, kill jobs at each crash point, run a million simulated worlds, three hours (ARGS='--seed 7')
	@$(WITH_JAVA) $(IN_MEMORY) $(BIN)/python -m pytest -m soak tests/recovery/test_kill_matrix.py -q $(PYTEST_ARGS)
	@FLINKISH_FLIPS=1000 $(IN_MEMORY) $(BIN)/python -m pytest tests/integration/checkpoint/test_byte_flips.py -q --timeout 0
	@$(BIN)/python -m tests.simulation $(ARGS)

.PHONY: quick
quick: $(INSTALLED) ## Run the unit tests, which need no process, server or database; half a minute
	@$(IN_MEMORY) $(BIN)/python -m pytest $(QUICK) $(PYTEST_ARGS)

.PHONY: check
check: $(INSTALLED) ## Lint, format, types, import rules, unit tests, examples in docstrings; under 2 minutes
	$(BIN)/ruff check $(CODE)
	@$(BIN)/ruff check $(HOUSE_RULES) flinkish
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(IN_MEMORY) $(BIN)/python -m pytest $(QUICK) $(DOCTESTS) $(PYTEST_ARGS)

.PHONY: docs
docs: $(DOCS_INSTALLED) ## Build the documentation into build/docs (ARGS=serve shows it in a browser and follows changes)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs $(or $(ARGS),build --strict) --config-file docs/mkdocs.yml

.PHONY: plots
plots: $(INSTALLED) ## Draw the plots in docs/pages/images again, from the figures beside the pages
	@$(BIN)/python -m docs.plots

.PHONY: pictures
pictures: $(INSTALLED) ## Make the pictures of the server's page in docs/pages/images again (needs chromium and its driver)
	@$(BIN)/python -m tests.server.page_pictures

.PHONY: format
format: $(INSTALLED) ## Format the code and apply ruff's fixes
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

.PHONY: setup
setup: $(INSTALLED) ## Make the virtual environment, check for Java, fetch Delta's jars
	@.ci/java.sh >/dev/null
	@test -f '$(DELTA_JAR)' || { $(WITH_JAVA) $(BIN)/python .ci/fetch_jars.py '$(DELTA_JAR)'; }

$(INSTALLED): setup.cfg pyproject.toml .ci/venv.sh
	@.ci/venv.sh $(VENV)
	@touch $@

# The cache of a machine without a network has none: the tests that need a broker are skipped then, but not in CI.
$(KAFKA_JARS): | setup
	@$(WITH_JAVA) $(BIN)/python .ci/fetch_test_jars.py kafka '$@' || test -z "$(CI)"

$(SPARK_KAFKA_JARS): | setup
	@$(WITH_JAVA) $(BIN)/python .ci/fetch_test_jars.py spark-kafka '$@' || test -z "$(CI)"

$(FLINK_JARS): | setup
	@$(WITH_JAVA) $(BIN)/python .ci/fetch_test_jars.py flink '$@' || test -z "$(CI)"

$(FLINK_PYTHON_JARS): | setup
	@$(WITH_JAVA) $(BIN)/python .ci/fetch_test_jars.py flink-python '$@' || test -z "$(CI)"

$(CLASSES): $(INSTALLED) .ci/class_archive.py | setup
	@$(WITH_JAVA) $(BIN)/python .ci/class_archive.py '$(CURDIR)/$@'

$(DOCS_INSTALLED): $(INSTALLED)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

.PHONY: clean
clean: ## Remove everything that the targets made, except the downloaded jars
	@rm -rf $(VENV) build dist out .cache *.egg-info spark-warehouse metastore_db derby.log
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find flinkish tests jobs .ci -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile
