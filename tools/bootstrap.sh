#!/usr/bin/env bash
# Installs missing packages to build, run or test hakmem: distribution packages through apt-get, Python packages into
# build/venv. Has no prompts; takes a moment when no package is missing.
#
#   tools/bootstrap.sh [--check] build|install|deb|musl|wheel|crate|run|docs|test|test-all|fuzz|peers|programs
#
# build: compilers, cmake, ninja.  run: and a Python.  docs: a Python and build/venv.
# install: as build, and where available the packages that the installed tool imports.
# deb: as build, and what makes Debian packages, on a distribution that has it.
# musl: as build, and musl-gcc; where it cannot be had, zig into build/venv (tools/zig-requirements.txt).
# wheel: as docs, and cmake, ninja, and tools/wheel-requirements.txt, which has a compiler.
# test: all of these, and GoogleTest, some libraries to test with, Prometheus (Debian's starts a service where systemd
# runs; the tests start their own, and need none of it).
# test-all: as test, as wheel, and where available clang, clang-tidy, cargo, libabigail,
# tests/consumers/requirements.txt, the tools that make, check and install packages of Debian, RPM and Arch, and the
# smaller programs of docs/recipes (Debian's redis-server and nginx start services where systemd runs; the tests start
# their own).
# fuzz: as build, with GoogleTest and, where available, clang and its libFuzzer.
# peers: as run, and where available cargo and the distribution's allocators.
# programs: as run, and where available the real programs of bench/programs.toml (Debian's redis-server starts a service
# when it is installed).
# crate: a C compiler and cargo.
# --check installs nothing and prints the missing packages.
set -euo pipefail
cd "$(dirname "$0")/.."

check_only=false
if [ "${1:-}" = "--check" ]; then
  check_only=true
  shift
fi
goal=${1:-test}

say() { printf 'bootstrap: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }
# compiles COMMAND LANGUAGE: whether a compiler, which may have several words, finds the C library's headers.
compiles() { echo '#include <stdlib.h>' | $1 -x "$2" -fsyntax-only - >/dev/null 2>&1; }
# has_compiler VARIABLE COMMAND LANGUAGE: whether that of the variable compiles, or without one the command.
has_compiler() {
  compiles "${!1:-$2}" "$3" && return
  [ -z "${!1:-}" ] || say "$1=${!1} is no command here, or does not compile a line with <stdlib.h>"
  return 1
}

ACTIONLINT=v1.7.12

missing=() # apt packages

# The real interpreter behind a name: `python3` on PATH may be a version manager's shell script. Prints nothing when it
# is none, or when it cannot make a virtual environment.
real_python() {
  "$1" -c '
import sys, venv, ensurepip
if sys.version_info >= (3, 9): print(sys.executable)' 2>/dev/null || true
}

find_python() {
  local candidate found
  for candidate in /usr/bin/python3 python3; do
    found=$(real_python "$candidate")
    if [ -n "$found" ]; then
      printf '%s\n' "$found"
      return
    fi
  done
}

# want_cmake: no package of the distribution stands in for a cmake that is too old for CMakeLists.txt.
want_cmake() {
  local needed_major needed_minor
  if ! have cmake; then
    missing+=(cmake)
    return
  fi
  [[ $(<CMakeLists.txt) =~ cmake_minimum_required\(VERSION\ ([0-9]+)\.([0-9]+)\) ]]
  needed_major=${BASH_REMATCH[1]} needed_minor=${BASH_REMATCH[2]}
  [[ $(cmake --version 2>&1) =~ version\ (([0-9]+)\.([0-9]+)[^[:space:]]*) ]] || return 0
  ((BASH_REMATCH[2] > needed_major || (BASH_REMATCH[2] == needed_major && BASH_REMATCH[3] >= needed_minor))) ||
    die "cmake is ${BASH_REMATCH[1]}, and hakmem needs $needed_major.$needed_minor or later." \
      "\`pip install cmake\` in a virtual environment installs a newer one"
}

# want_cargo: of the version that the crate needs. Debian 12 has it in what it builds browsers with, cargo-web, and an
# older one as cargo.
want_cargo() {
  local needed_major needed_minor
  if ! have cargo; then
    missing+=("$(cargo_package)")
    return
  fi
  [[ $(<bindings/rust/Cargo.toml) =~ rust-version\ =\ \"([0-9]+)\.([0-9]+) ]]
  needed_major=${BASH_REMATCH[1]} needed_minor=${BASH_REMATCH[2]}
  [[ $(cargo --version 2>&1) =~ cargo\ (([0-9]+)\.([0-9]+)[^[:space:]]*) ]] || return 0
  ((BASH_REMATCH[2] > needed_major || (BASH_REMATCH[2] == needed_major && BASH_REMATCH[3] >= needed_minor))) ||
    die "cargo is ${BASH_REMATCH[1]}, and the crate needs $needed_major.$needed_minor or later." \
      "On Debian 12: sudo apt-get install cargo-web, in the place of cargo"
}

# cargo_package: cargo-web where the distribution has it.
cargo_package() {
  if apt-cache show cargo-web >/dev/null 2>&1; then echo cargo-web; else echo cargo; fi
}

# want_debian_tools LIST: what makes Debian packages.
want_debian_tools() {
  local -n list=$1
  have dpkg-buildpackage || list+=(dpkg-dev)
  have fakeroot || list+=(fakeroot)
  have dh || list+=(debhelper)
  have dh_python3 || list+=(dh-python)
}

find_missing() {
  missing=()
  if [ "$goal" = docs ]; then
    if [ ! -x build/venv/bin/python ] && [ -z "$(find_python)" ]; then missing+=(python3 python3-venv); fi
    return
  fi
  # Of the variables that CMake and cargo read.
  if [ "$goal" != wheel ] &&
    { ! have make || ! has_compiler CC cc c || ! has_compiler CXX c++ c++; }; then
    missing+=(build-essential)
  fi
  if [ "$goal" = crate ]; then
    want_cargo
    return
  fi
  want_cmake
  have ninja || missing+=(ninja-build)
  case "$goal" in
    wheel)
      if [ ! -x build/venv/bin/python ] && [ -z "$(find_python)" ]; then missing+=(python3 python3-venv); fi
      ;;
    run | peers | programs)
      [ -x /usr/bin/python3 ] || missing+=(python3)
      ;;
    test | test-all)
      [ -e /usr/include/gtest/gtest.h ] || [ -e /usr/local/include/gtest/gtest.h ] || missing+=(libgtest-dev)
      if [ ! -x build/venv/bin/python ] && [ -z "$(find_python)" ]; then missing+=(python3 python3-venv); fi
      ;;
    deb)
      want_debian_tools missing
      ;;
    fuzz)
      [ -x /usr/bin/python3 ] || missing+=(python3)
      [ -e /usr/include/gtest/gtest.h ] || [ -e /usr/local/include/gtest/gtest.h ] || missing+=(libgtest-dev)
      ;;
  esac
}

optional=() # apt packages without which less is measured

# want_library NAME PACKAGE: a library that the dynamic linker should know.
want_library() {
  PATH="$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -q "^[[:space:]]*$1 " || optional+=("$2")
}

# want_module NAME PACKAGE: a module that the system's Python should have.
want_module() { /usr/bin/python3 -c "import $1" 2>/dev/null || optional+=("$2"); }

find_optional() {
  local tool
  optional=()
  case "$goal" in
    musl) have musl-gcc || optional+=(musl-tools) ;;
    install)
      [ -x /usr/bin/python3 ] || optional+=(python3)
      want_module click python3-click
      want_module rich python3-rich
      want_module elftools python3-pyelftools
      want_module google.protobuf python3-protobuf
      want_module prometheus_client python3-prometheus-client
      ;;
    test | test-all)
      have musl-gcc || optional+=(musl-tools)
      if [ "$(uname -m)" = x86_64 ]; then
        have aarch64-linux-gnu-g++ || optional+=(g++-aarch64-linux-gnu)
        have qemu-aarch64 || optional+=(qemu-user)
      fi
      # What tests/stress/real_libraries_test.cc runs. (libxml2-dev too where it is; it is large.)
      [ -e /usr/include/sqlite3.h ] || optional+=(libsqlite3-dev)
      [ -e /usr/include/zlib.h ] || optional+=(zlib1g-dev)
      compgen -G '/usr/include/lua*/lua.h' >/dev/null || optional+=(liblua5.4-dev)
      # What tests/cli/test_metrics.py has scrape the tool.
      { have prometheus && have promtool; } || optional+=(prometheus)
      # What tests/cli/test_report_page.py looks at a page with.
      have chromium || optional+=(chromium)
      have chromedriver || optional+=(chromium-driver)
      ;;
    peers)
      have cargo || optional+=("$(cargo_package)")
      want_library libjemalloc.so.2 libjemalloc2
      want_library libtcmalloc_minimal.so.4 libtcmalloc-minimal4
      want_library libmimalloc.so.2 libmimalloc2.0
      ;;
    programs)
      have sqlite3 || optional+=(sqlite3)
      have z3 || optional+=(z3)
      have ruby || optional+=(ruby)
      have gs || optional+=(ghostscript)
      { have redis-server && have redis-benchmark; } || optional+=(redis-server)
      have db_bench || optional+=(rocksdb-tools)
      ;;
  esac
  if [ "$goal" = test-all ]; then
    have cargo || optional+=(cargo)
    have abidiff || optional+=(abigail-tools)
    if have apt-get; then
      want_debian_tools optional
      have lintian || optional+=(lintian)
      [ -x /usr/sbin/debootstrap ] || optional+=(debootstrap)
      # What `make rpm` and `make arch` build with.
      have rpmbuild || optional+=(rpm)
      have makepkg || optional+=(makepkg)
      have bsdtar || optional+=(libarchive-tools)
    fi
    # The shells and the man that completions and pages are tried in.
    for tool in zsh fish; do have $tool || optional+=($tool); done
    have man || optional+=(man-db)
  fi
  case "$goal" in
    test-all)
      # The real programs of docs/recipes; the large ones (postgres, node, java) count where they are installed.
      have sqlite3 || optional+=(sqlite3)
      { have redis-server && have redis-benchmark; } || optional+=(redis-server)
      PATH="$PATH:/usr/sbin" have nginx || optional+=(nginx-light)
      have db_bench || optional+=(rocksdb-tools)
      { have ruby && have puma; } || optional+=(ruby puma)
      ruby -e 'require "action_controller/railtie"' 2>/dev/null || optional+=(ruby-actionpack ruby-railties)
      have curl || optional+=(curl)
      ;;
  esac
  case "$goal" in
    test-all | fuzz) { have clang && have clang++; } || optional+=(clang) ;;
  esac
  [ "$goal" != test-all ] || have clang-tidy || optional+=(clang-tidy)
}

as_root=()
# Whether packages can be installed at all; sets as_root.
can_install() {
  have apt-get || return 1
  [ "$(id -u)" = 0 ] && return
  have sudo && sudo -n true 2>/dev/null && as_root=(sudo -n)
}

apt_install() {
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -y -o Acquire::http::Timeout=20)
  say "installing $*"
  # The package lists may be missing or stale: fetch them when the first try fails.
  "${apt[@]}" install --no-install-recommends "$@" >/dev/null 2>&1 && return
  "${apt[@]}" -qq update || true
  "${apt[@]}" install --no-install-recommends "$@"
}

install_packages() {
  find_missing
  [ ${#missing[@]} = 0 ] && return
  local by_hand="sudo apt-get install ${missing[*]}"
  if $check_only || ! have apt-get; then die "missing: ${missing[*]}. On Debian and Ubuntu: $by_hand"; fi
  can_install ||
    die "missing: ${missing[*]}, and no right to install (root, or sudo without a password). By hand: $by_hand"
  apt_install "${missing[@]}" || die "apt-get could not install ${missing[*]}: see above. Is there a network?"
  hash -r
  if [[ " ${missing[*]} " = *" cmake "* ]]; then want_cmake; fi
  if [[ " ${missing[*]} " = *" cargo "* ]]; then want_cargo; fi
}

# One by one: what this distribution does not have must not keep the others away.
install_optional() {
  local package
  find_optional
  [ ${#optional[@]} = 0 ] && return
  if $check_only || ! can_install; then
    say "going on without ${optional[*]}. On Debian and Ubuntu: sudo apt-get install ${optional[*]}"
    return
  fi
  for package in "${optional[@]}"; do
    apt_install "$package" || say "going on without $package"
  done
}

# libFuzzer is a part of compiler-rt, whose package has the compiler's own version in its name.
install_libfuzzer() {
  have clang || return 0
  local version package
  [ -z "$(find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*' -print -quit 2>/dev/null)" ] || return 0
  version=$(clang -dumpversion)
  package=libclang-rt-${version%%.*}-dev
  if $check_only || ! can_install; then
    say "going on without $package"
    return
  fi
  apt_install "$package" || say "going on without $package"
}

# build/venv with tools/requirements.txt. Where the package index cannot be reached the distribution's pytest and
# pyelftools do.
install_python_packages() {
  local venv=build/venv python stamp
  # A virtual environment holds its own path: a moved checkout needs a new one.
  stamp="$PWD $(cat tools/requirements.txt cli/requirements.txt | cksum)"
  if [ -x $venv/bin/python ]; then
    case "$(cat $venv/.stamp 2>/dev/null)" in "$stamp" | "$stamp from the distribution") return ;; esac
  fi
  python=$(find_python)
  [ -n "$python" ] || die "no Python 3.9 or later that can make a virtual environment (package python3-venv)"
  say "setting up build/venv"
  rm -rf $venv
  "$python" -m venv $venv
  if $venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/requirements.txt; then
    printf '%s\n' "$stamp" >$venv/.stamp
    return
  fi
  say "pip could not install tools/requirements.txt; taking pytest and pyelftools from the distribution instead"
  if can_install; then apt_install python3 python3-venv python3-pytest python3-pyelftools || true; fi
  rm -rf $venv
  if [ -x /usr/bin/python3 ] && /usr/bin/python3 -c 'import pytest, elftools, venv' 2>/dev/null; then
    /usr/bin/python3 -m venv --system-site-packages $venv
    printf '%s from the distribution\n' "$stamp" >$venv/.stamp
    say "going on without the pinned formatters and mkdocs-material (the checks of format and site are left out)"
    return
  fi
  die "pytest and pyelftools cannot be had: no package index, no apt-get." \
    "Install python3-pytest and python3-pyelftools."
}

# tests/consumers/requirements.txt and actionlint, beside the packages above. Tests are left out without them.
install_consumer_packages() {
  local venv=build/venv stamp
  if have go && [ ! -x $venv/bin/actionlint ]; then
    say "building actionlint $ACTIONLINT"
    GOBIN=$PWD/$venv/bin go install "github.com/rhysd/actionlint/cmd/actionlint@$ACTIONLINT" 2>/dev/null ||
      say "going on without actionlint"
  fi
  stamp=$(cksum <tests/consumers/requirements.txt)
  if [ "$(cat $venv/.consumers-stamp 2>/dev/null)" = "$stamp" ]; then return; fi
  say "installing tests/consumers/requirements.txt into $venv"
  if $venv/bin/python -m pip install --quiet --disable-pip-version-check -r tests/consumers/requirements.txt; then
    printf '%s\n' "$stamp" >$venv/.consumers-stamp
  else
    say "going on without Meson, Conan and zizmor"
  fi
}

# zig, which is a C and C++ compiler for musl with its C++ library.
install_zig() {
  compgen -G 'build/venv/lib/python3*/site-packages/ziglang/zig' >/dev/null && return
  install_python_packages
  say "installing zig into build/venv"
  build/venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/zig-requirements.txt ||
    say "going on without zig"
}

# tools/wheel-requirements.txt, beside the packages above.
install_wheel_tools() {
  local venv=build/venv stamp
  stamp=$(cat tools/wheel-requirements.txt tools/zig-requirements.txt | cksum)
  if [ "$(cat $venv/.wheel-stamp 2>/dev/null)" = "$stamp" ]; then return; fi
  say "installing tools/wheel-requirements.txt into $venv"
  if $venv/bin/python -m pip install --quiet --disable-pip-version-check -r tools/wheel-requirements.txt; then
    printf '%s\n' "$stamp" >$venv/.wheel-stamp
  elif [ "$goal" = wheel ]; then
    die "pip could not install tools/wheel-requirements.txt: see above. Is there a network?"
  else
    say "going on without the tools for wheels"
  fi
}

case "$goal" in
build | install | deb | musl | wheel | crate | run | docs | test | test-all | fuzz | peers | programs) ;;
*) die "no goal $goal: tools/bootstrap.sh lists them at its top" ;;
esac
install_packages
install_optional
if [ "$goal" = fuzz ]; then install_libfuzzer; fi
case "$goal" in
docs | wheel | test | test-all) if ! $check_only; then install_python_packages; fi ;;
esac
case "$goal" in
wheel | test-all) if ! $check_only; then install_wheel_tools; fi ;;
esac
case "$goal" in
musl) $check_only || have musl-gcc || install_zig ;;
test-all) $check_only || install_consumer_packages ;;
esac
