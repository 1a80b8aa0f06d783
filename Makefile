# The two main commands are `make demo` and `make test`. Both include the set-up.
export LEADLINE_USER_PATH := $(PATH)
export PATH := $(PATH):$(CURDIR)/.tools/bin:$(HOME)/.local/bin
# Set in many container images. Without bytecode on disk, every process that a test or a script starts
# compiles all of its modules again: half of the processor time of `leadline --help`.
unexport PYTHONDONTWRITEBYTECODE

# With the tools of development, which `make setup` does not install.
DEV = uv run --frozen --group dev

.PHONY: help demo test test-code test-quick-real test-thorough test-slow test-ceph test-kubernetes test-deep setup check format bench audit-bench fuzz release clean

help:
	@echo "make demo       two real Ceph clusters, compared, and one forecast from the other, in seven minutes"
	@echo "make test       every test that fits in ten minutes, real fio, Ceph and a browser included"
	@echo "make test-thorough  simulations and adversaries in large numbers"
	@echo "make test-slow  slower tests of devices, folders and hosts, without a cluster"
	@echo "make test-ceph  slower tests of real Ceph: failure drills, pools, labs, engines"
	@echo "make test-kubernetes  a real Kubernetes cluster of one node, built from source"
	@echo "make test-deep  the longest tests: all adversaries and simulations, guests with OpenZFS and NVMe/TCP, a bare Debian 12"
	@echo "make bench      speed and memory of Leadline, as ratios"
	@echo "make audit-bench  recall and false alarms of the audit on labelled results"
	@echo "make fuzz       a fuzzer for each parser of foreign files, FUZZ_SECONDS (20) each"
	@echo "make release    wheel, sdist, SBOM and checksums of the last commit, in dist/"
	@echo "make setup      only the set-up, for 'uv run leadline ...'"
	@echo "make check      only the static checks"

setup:
	@scripts/setup.sh run

demo:
	@scripts/setup.sh run
	@scripts/demo.sh

test:
	@scripts/setup.sh test
	@scripts/in-parallel.sh '$(MAKE) --no-print-directory test-code' '$(MAKE) --no-print-directory check' '$(MAKE) --no-print-directory test-quick-real'

# Processes that each collect their own part of the tests: the workers of pytest-xdist all collect all of
# them, and all rewrite the assertions of every file of a fresh clone. The first two compute. The others
# mostly wait, for programs and the browser.
CODE = $(DEV) pytest -m "not slow and not thorough"
WAITING = tests/unit/engines tests/unit/runner tests/unit/connect tests/unit/probes

test-code:
	@scripts/in-parallel.sh '$(CODE) tests/unit tests/golden $(WAITING:%=--ignore=%)' '$(CODE) tests/cli tests/docs tests/architecture' '$(CODE) $(WAITING)' '$(CODE) tests/contract tests/browser'

test-quick-real:
	scripts/test-real.sh -m "not slow and not thorough and not deep" tests/real

# The files of long tests: to collect all tests takes each worker many seconds of processor time.
THOROUGH = $(sort $(shell grep -rlE 'mark\.thorough|TEMPLATES' --include='test_*.py' tests))
SLOW = $(sort $(shell grep -rl 'mark\.slow' --include='test_*.py' tests))

test-thorough:
	@scripts/setup.sh test
	$(DEV) pytest -n 2 --dist loadfile -m "thorough and not deep" $(THOROUGH)

# Those that need no cluster. The other slow tests are those of `test-ceph`.
WITHOUT_CLUSTER = $(filter tests/contract/% tests/unit/% $(patsubst %,tests/docs/test_%.py,guides forecast_errors) \
	$(patsubst %,tests/real/test_%.py,clock_steps device_safety fleet fleet_hosts guard hosts hosts_run hung_mount \
	lab_network programs run shared_host stacks stop_when_decided sweep zfs_stream),$(SLOW))

test-slow:
	@scripts/setup.sh test
	scripts/test-real.sh -n 2 --dist loadfile -m slow $(WITHOUT_CLUSTER)

test-ceph:
	@scripts/setup.sh test
	scripts/test-real.sh -n 2 --dist loadfile -m "slow and not deep" $(filter-out tests/kubernetes/% $(WITHOUT_CLUSTER),$(SLOW))

test-kubernetes:
	@scripts/setup.sh test
	@scripts/kubernetes-parts.sh
	scripts/test-real.sh -n 3 --dist loadfile --no-loadscope-reorder -m "not deep" tests/kubernetes

check:
	$(DEV) ruff check .
	$(DEV) ruff format --check .
	$(DEV) mypy --explicit-package-bases src/leadline tests/real tests/kubernetes benchmarks
	$(DEV) lint-imports
	$(DEV) vulture src scripts/vulture_whitelist.py

test-deep:
	@scripts/setup.sh test
	$(DEV) pytest -q -n 2 --hypothesis-profile=seeking -m "hypothesis and not thorough" tests/unit
	LEADLINE_KILLS=1000 LEADLINE_CUTS=200 LEADLINE_BYTE_STEP=1 LEADLINE_FUZZ_SECONDS=600 $(DEV) pytest -s --hypothesis-profile=seeking -m thorough $(THOROUGH)
	$(DEV) pytest -m "deep and not thorough" tests/real
	LEADLINE_SETTING_KILLS=100 $(DEV) pytest -s tests/real/test_settings.py -k kill_9
	@scripts/kubernetes-parts.sh guest
	$(DEV) pytest -m deep tests/kubernetes
	@scripts/guest-parts.sh
	$(DEV) pytest -m deep tests/guest
	@scripts/bare-machine.sh

bench:
	@scripts/setup.sh run
	uv run --frozen python benchmarks/run.py
	uv run --frozen python benchmarks/importing.py
	uv run --frozen python benchmarks/comparing.py
	uv run --frozen python benchmarks/layer_watches.py
	uv run --frozen python benchmarks/history.py
	uv run --frozen python benchmarks/predict.py

audit-bench:
	@scripts/setup.sh run
	uv run --frozen python -m benchmarks.audit

fuzz:
	@scripts/setup.sh run
	fuzz/run.sh

release:
	@scripts/setup.sh run
	@scripts/release.sh dist

format:
	$(DEV) ruff check --fix .
	$(DEV) ruff format .

clean:
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
