# A thin front: each target says in one place which tools do the work. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := lib
MAKEFLAGS += --no-print-directory

BUILD := build/release
# The interpreter that tools/bootstrap.sh set up, else the system's. The shell looks for it when it runs a line: make
# expands all lines of a recipe before the first, which may be the one that sets it up.
PYTHON = $$(command -v build/venv/bin/python || echo /usr/bin/python3)
JOBS ?= $(shell nproc)
# How long the randomised tests run: 1 is the full length. Sanitizers slow them down ten to fifty times.
SANITIZER_TEST_SCALE ?= 0.05
SOAK_SCALE ?= 100
SOAK_REPEAT ?= 20
FUZZ_SECONDS ?= 60
SOAK_OPERATIONS ?= 1000000000
# Continuous integration sets ON; elsewhere another compiler's new warning should not stop a build.
WERROR ?= OFF
# The prefix as one word of the shell. A folder `~` or `~USER` at its start is not quoted: the shell puts in the home.
QUOTED = '$(subst ','\'',$(or $(PREFIX),/usr/local))'
TILDE = $(filter ~%,$(firstword $(subst /, ,$(PREFIX))))
PLACE = $(if $(TILDE),$(subst '$(TILDE)',$(TILDE),$(subst '$(TILDE)/,$(TILDE)/',$(QUOTED))),$(QUOTED))
RUN_TESTS = $(PYTHON) tools/run_tests.py --jobs $(JOBS) --werror $(WERROR)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+: .*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

.PHONY: lib
lib: ## build the libraries of build/release, and what the command line tool needs of C (the default)
	@tools/bootstrap.sh --check build
	cmake --preset release
	cmake --build --preset release --target hakmem hakmem_static hakmem_fast hakmem_secure hakmem_policy hakmem_launcher

.PHONY: musl
musl: ## build the libraries for programs of musl, build/musl/libhakmem.so and .a, by musl-gcc, else by zig
	tools/bootstrap.sh musl
	preset=$$(command -v musl-gcc >/dev/null && echo musl || echo musl-zig); \
	cmake --preset $$preset && cmake --build --preset $$preset --target hakmem hakmem_static hakmem_fast hakmem_secure

.PHONY: run
run: ## install what is missing, build the libraries and show them at work
	tools/bootstrap.sh run
	$(MAKE) lib
	$(PYTHON) tools/demo.py --build $(BUILD)

.PHONY: test
test: ## install what is missing, then the checks and every tier of tests, in a quarter of an hour; ONLY=pattern for some of them
	tools/bootstrap.sh test
	@$(RUN_TESTS) $(if $(ONLY),only '$(ONLY)',quick)

.PHONY: test-all
test-all: test test-rest ## every test at full length, in every preset

# What continuous integration has beyond test: the other presets, short, and each way to install.
.PHONY: test-ci
test-ci:
	tools/bootstrap.sh test-all
	@$(RUN_TESTS) ci

# What test-all has beyond test.
.PHONY: test-rest
test-rest:
	tools/bootstrap.sh test-all
	@$(RUN_TESTS) rest

# One tier of the release build: make test-unit, test-api and so on.
TIERS := unit api model stress fuzz model_check misuse secure preload tools bench cli
.PHONY: $(addprefix test-,$(TIERS))
$(addprefix test-,$(TIERS)): test-%:
	@tools/bootstrap.sh test
	@$(RUN_TESTS) tier $* $(if $(ONLY),--only '$(ONLY)')

.PHONY: model
model: test-model_check ## the model checker: the orders of small cases of the lock-free code, and its mutants

.PHONY: fuzz
fuzz: ## each fuzz target for FUZZ_SECONDS, by libFuzzer where clang has it; executions a target
	tools/bootstrap.sh fuzz
	$(PYTHON) tools/fuzz.py --seconds $(FUZZ_SECONDS) --jobs $(JOBS) $(if $(ONLY),--only '$(ONLY)')

# One preset by itself: unit, api, model, stress and fuzz tests.
.PHONY: $(addprefix test-,debug asan tsan clang)
$(addprefix test-,debug asan tsan clang): test-%:
	cmake --preset $* -DHK_TESTS=ON -DHK_TESTS_ONLY_THREADED=OFF -DHK_SANITIZE_TESTS=ON -DHK_WERROR=$(WERROR)
	cmake --build --preset $*
	HAKMEM_TEST_SCALE=$(SANITIZER_TEST_SCALE) ctest --preset $* -j $(JOBS) -L '^(unit|api|model|stress|fuzz)$$'

.PHONY: check
check: lib ## format, layers, language, exports, generated docs and man pages, the site of docs/, commit subjects, clang-tidy
	@failed=; \
	for check in check_layers.py check_format.py check_language.py 'generate_docs.py --check' 'generate_man.py --check' \
	    build_site.py check_commits.py documented_commands.py \
	    'check_exports.py --build $(BUILD)' 'check_tidy.py --build $(BUILD)'; do \
	  $(PYTHON) tools/$$check || failed=1; \
	done; \
	[ -z "$$failed" ]

.PHONY: format
format: ## bring the formatting, the generated docs, the man pages and completions up to date
	$(PYTHON) tools/check_format.py --fix
	$(PYTHON) tools/generate_docs.py
	$(PYTHON) tools/generate_man.py

.PHONY: docs
docs: ## build the documents as a site, dist/docs/index.html, which needs no network
	tools/bootstrap.sh docs
	$(PYTHON) tools/build_site.py --output dist/docs

.PHONY: wheel
wheel: ## build the Python wheels of the tool with the libraries in them, for each platform, into dist/
	tools/bootstrap.sh wheel
	$(PYTHON) tools/build_wheel.py $(ONLY)

.PHONY: bench
bench: lib ## the standard set beside every allocator that is present (make peers), into bench/results; redraws README's plot
	cmake --build --preset release --target bench_programs hakmem_count
	./hakmem bench
	./hakmem bench --draw bench/results docs/time_beside_memory.svg

.PHONY: bench-costs
bench-costs: lib ## memory of small programs, and instructions a malloc and free (needs valgrind)
	$(PYTHON) bench/small_program_memory.py --build $(BUILD)
	$(PYTHON) bench/instructions.py --build $(BUILD) --peers

.PHONY: peers
peers: ## fetch, build and verify the allocators to compare with, into build/peers (needs cargo)
	tools/bootstrap.sh peers
	$(PYTHON) bench/peers/fetch.py --jobs $(JOBS)

.PHONY: soak
soak: ## for hours: the long tests SOAK_SCALE times as long, SOAK_OPERATIONS operations under every pair of options
	tools/bootstrap.sh test
	cmake --preset release -DHK_TESTS=ON
	cmake --build --preset release
	ctest --preset release -L '^stress$$' --repeat until-fail:$(SOAK_REPEAT)
	for program in $(BUILD)/tests/model $(BUILD)/tests/stress $(BUILD)/tests/real_libraries_test; do \
	  HAKMEM_TEST_SCALE=$(SOAK_SCALE) $$program; \
	done
	HAKMEM_TEST_SCALE=$(SOAK_SCALE) HAKMEM_TEST_BUILD_DIR=$(abspath $(BUILD)) \
	  $(PYTHON) -m pytest -v -p no:cacheprovider tests/preload/test_fork.py tests/preload/test_signals.py
	$(PYTHON) tests/preload/option_matrix.py --build $(BUILD) --operations $(SOAK_OPERATIONS) --jobs $(JOBS)
	$(PYTHON) tests/preload/option_matrix.py --build $(BUILD) --tests 0.1 --jobs $(JOBS)
	HAKMEM_TEST_SCALE=$(SOAK_SCALE) $(BUILD)/tests/unit_start --source=refused_calls_test
	HAKMEM_TEST_SCALE=$(SOAK_SCALE) HAKMEM_TEST_BUILD_DIR=$(abspath $(BUILD)) \
	  $(PYTHON) -m pytest -v -rA -p no:cacheprovider tests/preload/test_refused_calls.py
	$(MAKE) larson

.PHONY: larson
larson: lib ## Larson's server for a minute: memory, superslabs, and the speed at its end beside that at its begin
	cmake --build --preset release --target bench_programs
	$(PYTHON) bench/larson_long.py --build $(BUILD)

.PHONY: cost
cost: lib ## CPU time and memory at three prices beside every allocator that is present (make peers), into bench/results
	cmake --build --preset release --target bench_programs
	./hakmem bench --cost --no-counts

RUNS ?= 20
.PHONY: programs
programs: lib ## real programs under glibc and hakmem, RUNS times each, into docs/tested-programs.md (INSTALL=1)
	$(PYTHON) tools/real_programs.py --runs $(RUNS) $(if $(INSTALL),--install) --write docs/tested-programs.md

.PHONY: environments
environments: ## the environment matrix beside glibc at full numbers of threads, into docs/tested-environments.md
	tools/bootstrap.sh test
	cmake --preset release -DHK_TESTS=ON
	cmake --build --preset release
	$(PYTHON) tools/environment_table.py --build $(BUILD) --write docs/tested-environments.md

# clang's libraries have scudo, where they are installed.
SCUDO = $(firstword $(wildcard /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.scudo_standalone-$(shell uname -m).so))
ATTACKED ?= glibc mimalloc3 snmalloc jemalloc rpmalloc tcmalloc
.PHONY: attacks
attacks: lib ## attacks on the heap, RUNS times each, under hakmem and what make peers left, into docs/safety.md
	tools/bootstrap.sh test
	cmake --preset release -DHK_TESTS=ON
	cmake --build --preset release --target test_programs
	$(PYTHON) tests/misuse/attacks.py --build $(BUILD) --runs $(RUNS) --write tests/misuse/attack_results.json \
	  $(if $(wildcard build/peers/peers.json),--peers build/peers/peers.json --names $(ATTACKED)) \
	  $(if $(SCUDO),--library scudo $(filter llvm-%,$(subst /, ,$(SCUDO))) $(SCUDO))
	$(PYTHON) tools/generate_docs.py

.PHONY: crate
crate: ## make and build the Rust crate hakmem-alloc, dist/hakmem-alloc-VERSION.crate (needs cargo)
	tools/bootstrap.sh crate
	rm -f build/crate/package/*.crate
	cargo package --manifest-path bindings/rust/Cargo.toml --locked --allow-dirty --target-dir build/crate
	mkdir -p dist
	rm -f dist/hakmem-alloc-*.crate
	cp build/crate/package/hakmem-alloc-*.crate dist/

.PHONY: install
install: lib ## install libraries, tool, man pages and more to PREFIX (default /usr/local), below DESTDIR if set
	@tools/bootstrap.sh $(if $(DESTDIR),--check) install
	@rm -f $(BUILD)/install_manifest.txt # after `sudo make install` it is root's, and CMake does not replace it
	umask 022; cmake --install $(BUILD) --prefix $(PLACE)

.PHONY: uninstall
uninstall: lib ## remove what make install installs to PREFIX (default /usr/local), below DESTDIR if set
	tools/uninstall.sh $(BUILD) $(PLACE)

.PHONY: deb
deb: ## build the Debian packages libhakmem0, libhakmem-dev and hakmem-tools into dist/
	tools/bootstrap.sh deb
	$(PYTHON) tools/build_deb.py --jobs $(JOBS)

.PHONY: rpm arch
rpm: ## build the RPM packages hakmem, hakmem-devel and hakmem-tools into dist/ (needs rpmbuild)
	$(PYTHON) tools/build_recipe.py rpm

arch: ## build the Arch package into dist/ (needs makepkg)
	$(PYTHON) tools/build_recipe.py arch

.PHONY: clean
clean: ## remove what was built; build/venv stays
	rm -rf dist
	if [ -d build ]; then find build -mindepth 1 -maxdepth 1 ! -name venv -exec rm -rf {} +; fi
