# A thin front: each target says in one place which tools do the work. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := lib
MAKEFLAGS += --no-print-directory

BUILD := build/release
# The interpreter that tools/bootstrap.sh set up, else the system's.
PYTHON = $(firstword $(wildcard build/venv/bin/python) /usr/bin/python3)
JOBS ?= $(shell nproc)
# How long the randomised tests run: 1 is the full length. Sanitizers slow them down ten to fifty times.
HAKMEM_TEST_SCALE ?= 1
SANITIZER_TEST_SCALE ?= 0.05
SOAK_SCALE ?= 100
SOAK_REPEAT ?= 20
# Continuous integration sets ON; elsewhere another compiler's new warning should not stop a build.
WERROR ?= OFF
# The builds whose unit, api, model and stress tests `make test` runs besides the whole release suite.
CHECKED_BUILDS := debug asan tsan

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## (.*)/  make \1\t\2/' | expand -t 16

.PHONY: lib
lib: ## build build/release/libhakmem.so, libhakmem.a and libhakmem-fast.so (the default)
	@tools/bootstrap.sh --check build
	cmake --preset release
	cmake --build --preset release --target hakmem hakmem_static hakmem_fast hakmem_policy

.PHONY: run
run: ## install what is missing, build the libraries and show them at work
	tools/bootstrap.sh run
	$(MAKE) lib
	$(PYTHON) tools/demo.py --build $(BUILD)

.PHONY: test
test: ## install what is missing, then every check, every test, every sanitizer
	tools/bootstrap.sh test
	$(MAKE) check
	$(MAKE) test-release
	for preset in $(CHECKED_BUILDS); do $(MAKE) test-$$preset; done
	$(MAKE) test-arm64

.PHONY: test-release
test-release:
	cmake --preset release -DHK_TESTS=ON -DHK_WERROR=$(WERROR) -DHK_PYTHON=$(abspath $(PYTHON))
	cmake --build --preset release
	HAKMEM_TEST_SCALE=$(HAKMEM_TEST_SCALE) ctest --preset release -j $(JOBS) -LE '^stress$$'
	HAKMEM_TEST_SCALE=$(HAKMEM_TEST_SCALE) ctest --preset release -L '^stress$$' --repeat until-fail:3

.PHONY: model
model: ## the model checker: every order of small cases of the lock-free code, and mutants that it must catch
	tools/bootstrap.sh test
	cmake --preset release -DHK_TESTS=ON -DHK_WERROR=$(WERROR) -DHK_PYTHON=$(abspath $(PYTHON))
	cmake --build --preset release --target model_check_programs
	ctest --preset release -j $(JOBS) -L model_check

# One of debug, asan, tsan, clang: unit, api, model and stress tests.
.PHONY: $(addprefix test-,$(CHECKED_BUILDS) clang)
$(addprefix test-,$(CHECKED_BUILDS) clang): test-%:
	cmake --preset $* -DHK_TESTS=ON -DHK_WERROR=$(WERROR)
	cmake --build --preset $*
	HAKMEM_TEST_SCALE=$(SANITIZER_TEST_SCALE) ctest --preset $* -j $(JOBS) -L '^(unit|api|model|stress)$$'

# Unit, api and model tests of a debug build for arm64, under qemu. Where the tools are missing it says so. Left out is
# what asks the system things that qemu answers otherwise: limits, memory that is not there, how a child ended, how many threads
# there are and what they wait for; and it has no process_vm_readv, by which blocks are counted.
ARM64_LEFT_OUT := exhaustion_test|os_linux_test|os_linux_range_test|os_linux_refusal_test|os_linux_text_test|peek_test|panic_test|option_test|lock_test|lock_fork_test|regression_test|trim_test|bare_thread_test|thread_call_test|report_test|figures_test|census_heaps_test
ARM64_TOOLS := aarch64-linux-gnu-g++ qemu-aarch64
ARM64_TEST_SCALE ?= 0.02
.PHONY: test-arm64
test-arm64:
	@if [ "$$(uname -m)" = aarch64 ]; then echo "arm64: this machine is one, and was tested"; exit; fi; \
	for tool in $(ARM64_TOOLS); do \
	  command -v $$tool >/dev/null || { echo "arm64: NOT tested, there is no $$tool"; exit; }; \
	done; \
	[ -e /usr/src/googletest/CMakeLists.txt ] || { echo "arm64: NOT tested, no sources of GoogleTest"; exit; }; \
	set -x; \
	cmake --preset arm64 -DHK_TESTS=ON -DHK_WERROR=$(WERROR) && \
	cmake --build --preset arm64 && \
	HAKMEM_TEST_SCALE=$(ARM64_TEST_SCALE) ctest --preset arm64 -j $(JOBS) -L '^(unit|api|model)$$' -E '$(ARM64_LEFT_OUT)'

.PHONY: check
check: lib ## format, layers, exports, generated docs, clang-tidy
	@failed=; \
	for check in check_layers.py check_format.py 'generate_docs.py --check' \
	    'check_exports.py --build $(BUILD)' 'check_tidy.py --build $(BUILD)'; do \
	  $(PYTHON) tools/$$check || failed=1; \
	done; \
	[ -z "$$failed" ]

.PHONY: format
format: ## bring the formatting and the generated docs up to date
	$(PYTHON) tools/check_format.py --fix
	$(PYTHON) tools/generate_docs.py

.PHONY: bench
bench: lib ## the standard set beside every allocator that is present (make peers), into bench/results
	cmake --build --preset release --target bench_programs hakmem_count
	./hakmem bench

.PHONY: bench-costs
bench-costs: lib ## memory of small programs, and instructions a malloc and free (needs valgrind)
	$(PYTHON) bench/small_program_memory.py --build $(BUILD)
	$(PYTHON) bench/instructions.py --build $(BUILD) --peers

.PHONY: peers
peers: ## fetch, build and verify the allocators to compare with, into build/peers (needs cargo)
	tools/bootstrap.sh peers
	$(PYTHON) bench/peers/fetch.py --jobs $(JOBS)

.PHONY: soak
soak: ## the model, stress, fork and signal tests for hours: SOAK_SCALE times their usual length, and the stress tests SOAK_REPEAT times
	tools/bootstrap.sh test
	cmake --preset release -DHK_TESTS=ON
	cmake --build --preset release
	ctest --preset release -L '^stress$$' --repeat until-fail:$(SOAK_REPEAT)
	for program in $(BUILD)/tests/model/*_test $(BUILD)/tests/stress/*_test; do \
	  HAKMEM_TEST_SCALE=$(SOAK_SCALE) $$program; \
	done
	HAKMEM_TEST_SCALE=$(SOAK_SCALE) HAKMEM_TEST_BUILD_DIR=$(abspath $(BUILD)) \
	  $(PYTHON) -m pytest -v -p no:cacheprovider tests/preload/test_fork.py tests/preload/test_signals.py
	$(MAKE) larson

.PHONY: larson
larson: lib ## Larson's server for a minute: memory, superslabs, and the speed at its end beside that at its begin
	cmake --build --preset release --target bench_programs
	$(PYTHON) bench/larson_long.py --build $(BUILD)

.PHONY: cost
cost: lib ## CPU time and memory at three prices beside every allocator that is present (make peers), into bench/results
	cmake --build --preset release --target bench_programs
	./hakmem bench --cost --no-counts

.PHONY: install
install: lib ## install to PREFIX (default /usr/local), below DESTDIR if set
	cmake --install $(BUILD) --prefix $(or $(PREFIX),/usr/local)

.PHONY: clean
clean: ## remove what was built; build/venv stays
	if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} +; fi
