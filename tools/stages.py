"""The stages of the tests: what each run builds and runs, and on what machine. tools/run_tests.py runs them."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
LOGS = REPOSITORY / "build" / "test-logs"
PYTHON_TIERS = ("misuse", "secure", "tools", "bench", "preload", "cli")
TIERS = ("unit", "api", "model", "stress", "fuzz", "model_check", *PYTHON_TIERS)
PYTEST = (sys.executable, "-m", "pytest", "-v", "--durations=10", "-p", "no:cacheprovider")
NATIVE = "^(unit|api|model|stress|fuzz)$"
IN_CI = "^(unit|api|model)$"
MUSL_TIERS = "^(api|model|stress)$"
IN_ONE_PROCESS = "^(unit|api|model|fuzz|model_check)$"
PRESETS = ("release", "core", "debug", "secure", "asan", "tsan", "clang", "arm64", "musl", "musl-zig")
# qemu differs from a kernel in limits, refused memory, the end of a child and the waits of threads. It has
# no process_vm_readv, by which blocks are counted. And under qemu refused_calls_test, with hundreds of forks, takes
# long.
ARM64_LEFT_OUT = (
    "exhaustion_test|os_linux_test|os_linux_range_test|os_linux_refusal_test|os_linux_text_test|peek_test|panic_test|"
    "option_test|lock_test|lock_fork_test|regression_test|trim_test|bare_thread_test|thread_call_test|report_test|"
    "figures_test|census_heaps_test|process_test|local_socket_test|refused_calls_test|os_sleep_test|quiet_threads_test|"
    "serve_command_test|tag_test|tag_counts_test|named_model_test"
)
# Hundreds of forks take ThreadSanitizer long: `make test-rest` has them.
TSAN_LONG = "^unit[.]refused_calls_test$"
# Two processors have one shard: ThreadSanitizer is to see threads of several.
SEVERAL_SHARDS = {"HAKMEM_SHARDS": "2"}
# The libraries, and the tests that run under qemu: neither the stress tests nor preloaded programs.
ARM64_TARGETS = ("hakmem", "hakmem_static", "hakmem_fast", "tests_unit", "tests_api")
# The tests of the hardened variant. The preset debug has the same flags, and builds every library.
SECURE_TARGETS = ("tests_api", "tests_model", "tests_stress", "tests_fuzz")


@dataclass
class Stage:
    """One command, or several in turn; a stage whose `needs` failed is left out."""

    name: str
    commands: list[list[str]]
    guess: float  # seconds on two cores, until a run has measured it
    needs: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    outcome: str = "waits"
    seconds: float = 0.0
    begun: float = 0.0

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name.replace(' ', '-')}.log"


# Stages that run in turn, for each lane.
Lanes = list[list[Stage]]


def build(preset: str, werror: str, *targets: str, options: tuple[str, ...] = ()) -> list[list[str]]:
    """Configures and builds a preset with its tests."""
    configure = ["cmake", "--preset", preset, "-DHK_TESTS=ON", f"-DHK_WERROR={werror}", *options]
    if preset == "release":
        configure.append(f"-DHK_PYTHON={sys.executable}")
    if preset == "release" and not targets:
        targets = ("all", "hakmem_count")  # several workers of a suite want the counting library: they find it built
    return [configure, ["cmake", "--build", "--preset", preset, *(["--target", *targets] if targets else [])]]


def ctest(preset: str, jobs: int, *arguments: str) -> list[list[str]]:
    return [["ctest", "--preset", preset, "-j", str(jobs), *arguments]]


def scale(value: float) -> dict[str, str]:
    return {"HAKMEM_TEST_SCALE": str(value)}


# Checks the model checker's reduction on whole scenarios; `make test` checks it on the litmus tests. `make model` has
# all orders of all scenarios, which take too long for `make test-all`.
LONG_CHECKS = "^model_check[.]space_every_order$"
# The length of the release build's tests in `make test`.
SHORT = {**scale(0.25), "HAKMEM_TEST_REPEAT": "1"}


# All pages of docs/recipes, and the servers that read what the tool serves. One at a time: they measure.
RECIPES = [[*PYTEST, "tests/tools/test_recipes.py"], [*PYTEST, "tests/cli/test_servers.py"]]


# The attacks under every variant of the library. `make test` runs them once under the default one.
ATTACKS = [[sys.executable, "tests/misuse/attacks.py", "--runs", "5"]]


def have_arm64() -> str | None:
    """Returns why the arm64 build cannot be tested here; None where it can."""
    if platform.machine() == "aarch64":
        return "this machine is one, and was tested"
    missing = [tool for tool in ("aarch64-linux-gnu-g++", "qemu-aarch64") if shutil.which(tool) is None]
    if missing:
        return f"there is no {' and no '.join(missing)}"
    if not Path("/usr/src/googletest/CMakeLists.txt").exists():
        return "no sources of GoogleTest"
    return None


def have_musl() -> str | None:
    """Returns why the build for musl cannot be tested here; None where it can."""
    return None if shutil.which("musl-gcc") else "there is no musl-gcc"


def have_zig() -> str | None:
    """Returns why zig cannot be tested here; None where it can."""
    found = list(REPOSITORY.glob("build/venv/lib/python3*/site-packages/ziglang/zig"))
    return None if found else "there is no zig in build/venv"


def have_clang() -> str | None:
    """Returns why the clang build cannot be tested here; None where it can."""
    missing = [tool for tool in ("clang", "clang++") if shutil.which(tool) is None]
    return f"there is no {' and no '.join(missing)}" if missing else None


def have_wheel() -> str | None:
    """Returns why wheels cannot be built here; None where they can."""
    missing = [name for name in ("ziglang", "auditwheel") if importlib.util.find_spec(name) is None]
    return f"there is no {' and no '.join(missing)}" if missing else None


def wheel_stages() -> list[Stage]:
    """Builds the wheels, and uses them in a clean place; none where they cannot be built."""
    if have_wheel() is not None:
        return []
    build_all = [sys.executable, "tools/build_wheel.py"]
    variables = {"HAKMEM_TEST_WHEELS": str(REPOSITORY / "dist")}
    return [Stage("wheel", [build_all, suite("wheel")], 300, environment=variables)]


# The version that bindings/rust/Cargo.toml names.
LEAST_RUST = (1, 85)


def have_cargo() -> str | None:
    """Returns why the Rust crate cannot be tested here; None where it can."""
    if shutil.which("cargo") is None:
        return "there is no cargo"
    said = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"cargo (\d+)\.(\d+)", said.stdout)
    if version is None:
        return f"cargo does not work: {said.stderr.strip()}"
    least = ".".join(map(str, LEAST_RUST))
    return None if tuple(map(int, version.groups())) >= LEAST_RUST else f"{said.stdout.strip()} is older than {least}"


PACKAGE_TOOLS = {
    "Debian packages": "dh",
    "RPM packages": "rpmbuild",
    "Arch package": "makepkg",
    "clean roots": "debootstrap",
    "interface": "abidiff",
}


def preset_stages(
    preset: str,
    werror: str,
    jobs: int,
    part: float,
    guess: tuple[float, float],
    short: bool,
    *targets: str,
    label: str = NATIVE,
    is_each_alone: bool = False,
) -> list[Stage]:
    """Build and native tests of one preset. `short`: only the core is instrumented by AddressSanitizer, and the other
    presets have only the sources that start threads. `is_each_alone`: compiles each test source by itself."""
    options = (
        f"-DHK_TESTS_ONLY_THREADED={'ON' if short and preset != 'asan' else 'OFF'}",
        f"-DHK_SANITIZE_TESTS={'OFF' if short else 'ON'}",
        f"-DHK_TESTS_TOGETHER={1 if is_each_alone else 8}",
    )
    if preset == "arm64":
        label = "^(unit|api|model)$"
    environment = {**scale(part), **(SEVERAL_SHARDS if preset == "tsan" else {})}
    left_out = {"arm64": ARM64_LEFT_OUT, "tsan": TSAN_LONG if short else ""}.get(preset)
    out = ["-E", left_out] if left_out else []
    return [
        Stage(f"{preset} build", build(preset, werror, *targets, options=options), guess[0]),
        Stage(f"{preset} tests", ctest(preset, jobs, "-L", label, *out), guess[1], f"{preset} build", environment),
    ]


def musl_programs(preset: str, jobs: int, whole: bool) -> Stage:
    """C programs that are linked with the build's archive, or run with its library preloaded; and the suites misuse and
    preload, as far as they need no program of glibc."""
    pytest = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider"]
    misuse, preload = ["tests/misuse"], ["tests/preload"]
    if not whole:
        misuse += ["-k", "battery or immediate or interior_16"]
        preload = [f"tests/preload/test_{name}.py" for name in ("fork", "pid_namespace", "profile_probes")]
    # musl-gcc compiles the programs; zig links some of them statically.
    suites = [[*pytest, "-n", str(2 * jobs), *words] for words in (misuse, preload) if preset == "musl"]
    where = {"HAKMEM_TEST_BUILD_DIR": str(REPOSITORY / "build" / preset), "PYTHONDONTWRITEBYTECODE": "1"}
    variables = {**where, "HAKMEM_TEST_LIBC": "musl", "HAKMEM_TEST_REPEAT": "1", **scale(0.1 if whole else 0.02)}
    return Stage(f"{preset} programs", [[*pytest, "tests/musl"], *suites], 8, f"{preset} build", variables)


def musl_whole(preset: str, werror: str, jobs: int) -> list[Stage]:
    """The build for musl by one compiler: its tests, which zig's C++ library needs, and programs."""
    targets = ("hakmem", "hakmem_static", "hakmem_fast", "hakmem_secure", "tests_api", "tests_model", "tests_stress")
    targets += ("test_programs",) if preset == "musl" else ()
    return [
        Stage(f"{preset} build", build(preset, werror, *targets), 70),
        Stage(f"{preset} tests", ctest(preset, jobs, "-L", MUSL_TIERS), 30, f"{preset} build", scale(0.05)),
        musl_programs(preset, jobs, True),
    ]


def quick(werror: str, jobs: int) -> Lanes:
    """The stages of `make test`: those that keep the cores busy, and the suites that mostly wait for programs."""
    native = [
        Stage("check", [["make", "check", f"WERROR={werror}"]], 12),
        Stage("release build", build("release", werror), 110),
        Stage(
            "release tests", ctest("release", jobs, "-L", IN_ONE_PROCESS, "-E", LONG_CHECKS), 90, "release build", SHORT
        ),
        Stage("stress", ctest("release", 1, "-L", "^stress$"), 25, "release build", SEVERAL_SHARDS),
        *preset_stages("asan", werror, jobs, 0.02, (60, 30), True),
        *preset_stages("tsan", werror, jobs, 0.02, (40, 30), True),
    ]
    if have_arm64() is None:
        native += preset_stages("arm64", werror, jobs, 0.02, (30, 30), True, *ARM64_TARGETS)
    if have_musl() is None:
        options = ("-DHK_TESTS=OFF", "-DHK_TEST_PROGRAMS=ON")
        libraries = build("musl", werror, "hakmem", "hakmem_static", "test_programs", options=options)
        native += [Stage("musl build", libraries, 15), musl_programs("musl", jobs, False)]
    python = [
        Stage(tier, ctest("release", jobs, "-V", "-L", f"^{tier}$"), 60, "release build", SHORT)
        for tier in PYTHON_TIERS
    ]
    return [native, python]


RPM_AND_ARCH = "tests/packages/test_rpm_arch.py"


def suite(name: str) -> list[str]:
    """The command that runs a folder of tests which is no tier of ctest."""
    return [*PYTEST, f"tests/{name}"]


def cache_folder() -> dict[str, str]:
    """Names ccache's folder, for tools that give what they build a home of its own: debhelper, and Conan's test."""
    if shutil.which("ccache") is None:
        return {}
    said = subprocess.run(["ccache", "--get-config", "cache_dir"], capture_output=True, text=True, check=False)
    return {"CCACHE_DIR": said.stdout.strip()} if said.returncode == 0 else {}


def artefacts(jobs: int) -> list[Stage]:
    """The stages of the ways to get hakmem: built, installed in clean places and used."""
    stages = [
        Stage("interface", [[sys.executable, "tools/check_abi.py"]], 3, "release build"),
        Stage(
            "consumers",
            [[*PYTEST, "-n", str(jobs), "tests/consumers"]],
            130,
            "release build",
            {"CCACHE_BASEDIR": tempfile.gettempdir(), **cache_folder()},
        ),
        Stage("recipes", RECIPES, 100, "release build", {"HAKMEM_TEST_RECIPES": "all"}),
    ]
    if have_cargo() is None:
        stages.append(Stage("crate", [suite("crate")], 140, "release build"))
    # Last: it installs what `make deb` and the stages wheel and crate leave in dist/.
    debian = [["make", "deb"]] if shutil.which("dh") is not None else []
    others = [*suite("packages"), f"--ignore={RPM_AND_ARCH}"]
    stages.append(Stage("packages", [*debian, others], 180, "wheel", cache_folder()))
    return stages


def rpm_and_arch() -> Stage:
    """The packages that need no other stage. By itself, because network and single processes take most of the time."""
    return Stage("RPM and Arch", [[*PYTEST, RPM_AND_ARCH]], 120, environment={"CCACHE_BASEDIR": "/var/tmp"})


def ci(werror: str, jobs: int) -> Lanes:
    """The stages of .ci/run beyond `quick`: each preset that `quick` leaves out, short, and the ways to get hakmem."""
    stages = [
        Stage("release build", build("release", werror), 110),
        *preset_stages("debug", werror, jobs, 0.02, (120, 30), False, label=IN_CI),
        *preset_stages("core", werror, jobs, 0.02, (60, 20), True, label=IN_CI),
        *preset_stages("secure", werror, jobs, 0.02, (60, 40), False, *SECURE_TARGETS),
    ]
    if have_clang() is None:
        stages += preset_stages("clang", werror, jobs, 0.02, (150, 30), True, label=IN_CI)
    stages.append(Stage("tidy", [[sys.executable, "tools/check_tidy.py"]], 70, "release build"))
    # One process at a time, and the network, take most of the third lane's time. `packages` needs the wheels.
    return [stages, artefacts(jobs), [*wheel_stages(), rpm_and_arch()]]


def musl_presets() -> list[str]:
    """The builds for musl that this machine can make."""
    return ["musl", "musl-zig"] if have_musl() is None else ["musl-zig"]


def rest(werror: str, jobs: int) -> Lanes:
    """The stages beyond `quick`: every preset whole, full lengths, and beside them the ways to get hakmem."""
    stages = [
        Stage("release build", build("release", werror), 110),
        Stage("release tests", ctest("release", jobs, "-L", NATIVE, "-LE", "^stress$"), 180, "release build", scale(1)),
        Stage("stress", ctest("release", 1, "-L", "^stress$", "--repeat", "until-fail:3"), 80, "release build"),
        Stage("preload", ctest("release", jobs, "-V", "-L", "^preload$"), 200, "release build", scale(1)),
        Stage("attacks", ATTACKS, 20, "release build"),
        Stage("tidy", [[sys.executable, "tools/check_tidy.py", "--deep"]], 270, "release build"),
        *preset_stages("core", werror, jobs, 0.05, (60, 40), False),
        *preset_stages("debug", werror, jobs, 0.05, (120, 60), False, is_each_alone=True),
        *preset_stages("secure", werror, jobs, 0.05, (60, 60), False, *SECURE_TARGETS),
        *preset_stages("asan", werror, jobs, 0.05, (110, 60), False),
        *preset_stages("tsan", werror, jobs, 0.05, (150, 90), False),
    ]
    if have_clang() is None:
        stages += preset_stages("clang", werror, jobs, 0.05, (200, 40), False)
    if have_arm64() is None:
        stages += preset_stages("arm64", werror, jobs, 0.02, (150, 90), False)
        check = [sys.executable, "tools/check_abi.py", "--machine", "aarch64"]
        stages.append(Stage("arm64 interface", [check], 3, "arm64 build"))
    if have_zig() is None:
        stages += [stage for preset in musl_presets() for stage in musl_whole(preset, werror, jobs)]
    return [stages, [*wheel_stages(), *artefacts(jobs), rpm_and_arch()]]


WHOLE_RUNS = {"quick": quick, "ci": ci, "rest": rest}


def untested(what: str) -> dict[str, str]:
    """Why this machine leaves out parts of a whole run, by their names."""
    reasons = {"arm64": have_arm64(), "musl": have_musl()}
    if what == "rest":
        reasons["musl-zig"] = have_zig()
    if what != "quick":
        reasons["clang"] = have_clang()
        for name, needed in PACKAGE_TOOLS.items():
            there = shutil.which(needed, path=f"{os.environ['PATH']}:/usr/sbin")
            reasons[name] = None if there else f"there is no {needed}"
        reasons["wheel"] = have_wheel()
        reasons["crate"] = have_cargo()
    return {name: reason for name, reason in reasons.items() if reason is not None}
