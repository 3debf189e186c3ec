#!/bin/sh
# Sets up ./hakmem, once: the library (make lib) and build/venv with cli/requirements.txt. Says so on stderr.
#
#   cli/prepare.sh READY     READY is written to build/venv/.hakmem at the end; ./hakmem compares it
#
# tools/bootstrap.sh keeps its test tools in the same build/venv, and may make it anew: then this runs once more.
set -eu
ready=$1
cd "$(dirname -- "$(readlink -f -- "$0")")/.."
venv=build/venv

say() { printf 'hakmem: %s\n' "$*" >&2; }
die() {
  say "$@"
  exit 1
}

# These variables are the program's: a preload would run in pip and in the compiler, PYTHONHOME would break this Python.
unset LD_PRELOAD PYTHONHOME PYTHONPATH MAKEFLAGS MFLAGS MAKELEVEL || true

# Two first uses at the same time wait for each other.
mkdir -p build 2>/dev/null || true
[ -w build ] || die "cannot write to $PWD/build, where ./hakmem keeps what it needs"
if command -v flock >/dev/null 2>&1; then
  exec 9>build/.hakmem.lock
  flock 9
fi

build_library() {
  say "building the library (make lib)"
  # Installs missing build tools where that is allowed, as `make run` does.
  tools/bootstrap.sh run && make lib || die "the library could not be built: see above"
}

# The interpreter behind a name, if it is one (`python3` may be a version manager's shell script), recent enough, and
# able to make virtual environments.
real_python() {
  "$1" -c '
import sys, venv, ensurepip
if sys.version_info >= (3, 9): print(sys.executable)' 2>/dev/null || true
}

find_python() {
  for candidate in /usr/bin/python3 python3 python3.13 python3.12 python3.11 python3.10 python3.9; do
    found=$(real_python "$candidate")
    if [ -n "$found" ]; then
      printf '%s\n' "$found"
      return
    fi
  done
}

apt_install() {
  command -v apt-get >/dev/null 2>&1 || return 1
  if [ "$(id -u)" = 0 ]; then as_root=; elif sudo -n true 2>/dev/null; then as_root="sudo -n"; else return 1; fi
  say "installing $*"
  install="$as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q install --no-install-recommends"
  $install "$@" >/dev/null 2>&1 && return
  $as_root apt-get -qq update || true
  $install "$@"
}

make_venv() {
  python=$(find_python)
  if [ -z "$python" ]; then
    apt_install python3 python3-venv || true
    python=$(find_python)
  fi
  [ -n "$python" ] || die "no Python 3.9 or later that can make a virtual environment. On Debian and Ubuntu:" \
    "sudo apt-get install python3 python3-venv"
  say "setting up $venv with $python"
  rm -rf "$venv"
  "$python" -m venv "$venv" || die "$python could not make $venv: see above"
}

pip_install() {
  "$venv/bin/python" -I -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: "$@"
}

# From the package index; without matplotlib where there is none for this Python; else the distribution's packages.
install_packages() {
  say "installing the packages of cli/requirements.txt into $venv"
  pip_install -r cli/requirements.txt && return
  grep -v '^matplotlib' cli/requirements.txt >build/.requirements
  if pip_install -r build/.requirements; then
    say "matplotlib could not be installed: --plot will not work, all else does"
    return
  fi
  say "the package index could not be reached; trying the distribution's packages"
  apt_install python3-click python3-rich python3-pyelftools python3-protobuf python3-prometheus-client \
    python3-matplotlib || true
  sed -i 's/^include-system-site-packages = false/include-system-site-packages = true/' "$venv/pyvenv.cfg"
  "$venv/bin/python" -I -c 'import click, rich, elftools' 2>/dev/null && return
  sed -i 's/^include-system-site-packages = true/include-system-site-packages = false/' "$venv/pyvenv.cfg"
  die "click, rich and pyelftools cannot be had: no package index, no apt-get." \
    "Install python3-click, python3-rich and python3-pyelftools (and python3-matplotlib for plots)"
}

{ [ -f build/release/libhakmem.so ] && [ -f build/release/hakmem-launch ]; } || build_library
# Another ./hakmem may have done it while this one waited.
[ "$(cat "$venv/.hakmem" 2>/dev/null)" != "$ready" ] || exit 0
"$venv/bin/python" -I -c 'import pip' 2>/dev/null || make_venv
install_packages
# A line with its folder lets this Python find the package.
site=$("$venv/bin/python" -I -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
printf '%s\n' "$PWD/cli" >"$site/hakmem-checkout.pth"
"$venv/bin/python" -I -c 'import hakmem' || die "the package in cli/ cannot be imported: see above"
printf '%s\n' "$ready" >"$venv/.hakmem"
say "ready"
