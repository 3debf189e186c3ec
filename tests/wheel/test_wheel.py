"""The wheels of `make wheel`: installed in a clean place and used there as a service uses them, without a compiler, a
checkout, a writable home or a network. Wheels for arm64 run under qemu. `make test-ci` builds them and runs this."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Callable, Dict, Iterator, List

import pytest

ROOT = Path(__file__).resolve().parents[2]
DIST = Path(os.environ.get("HAKMEM_TEST_WHEELS", ROOT / "dist"))
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "cli"))
import build_wheel  # noqa: E402
from hakmem.attach_signal import DEFAULT  # noqa: E402

NATIVE = (*build_wheel.LIBRARIES, build_wheel.LAUNCHER)
SERVICE_USER = 54321  # 65534 stands for users without a number
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def wheel_of(target: build_wheel.Target) -> Path:
    """The wheel of a target. Only a run that was not promised any wheel may go without it."""
    found = sorted(DIST.glob(f"hakmem-*{target.tag}*.whl"))
    if not found and "HAKMEM_TEST_WHEELS" not in os.environ:
        pytest.skip("no wheel in dist/ (make wheel)")
    assert len(found) == 1, found
    return found[0]


def of_machine(machine: str) -> build_wheel.Target:
    return next(target for target in build_wheel.TARGETS if target.machine == machine and "manylinux" in target.tag)


@pytest.mark.parametrize("target", build_wheel.TARGETS, ids=lambda target: target.tag)
def test_a_wheel_holds_what_its_name_says(target: build_wheel.Target) -> None:
    """Checks size, tags, files and their machine; auditwheel has looked at the symbols when the wheel was built."""
    wheel = wheel_of(target)
    build_wheel.check(wheel, target)
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (info,) = (name for name in names if name.endswith("/WHEEL"))
        text = archive.read(info).decode()
        assert "Root-Is-Purelib: false" in text
        assert set(re.findall(r"^Tag: py3-none-(.*)$", text, re.M)) == {target.tag, *target.aliases}
        machine = {"x86_64": 62, "aarch64": 183}[target.machine]
        for name in NATIVE:
            head = archive.read(f"hakmem/native/{name}")
            assert head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") == machine, name
        assert not [name for name in names if name.endswith((".c", ".sh", ".pyc")) or name.startswith("build/")]
        licenses = [name for name in names if "/licenses/LICENSE" in name]
        assert len(licenses) == 2
        package = {name for name in names if name.startswith("hakmem/") and name.endswith(".py")}
    assert package == {str(file.relative_to(ROOT / "cli")) for file in (ROOT / "cli" / "hakmem").rglob("*.py")}


# ---- An installed wheel.


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A virtual environment with the wheel, made from an empty folder with no compiler on PATH, below a folder that
    other users may enter."""
    wheel = wheel_of(of_machine(platform.machine()))
    folder = Path("/var/tmp") / f"hakmem-wheel-{os.getpid()}"
    folder.mkdir(mode=0o755)
    try:
        python = Path(sys.executable).resolve()
        subprocess.run([python, "-I", "-m", "venv", folder / "venv"], check=True)
        environment = {"PATH": "/nonexistent", "HOME": "/nonexistent"}
        environment.update({name: os.environ[name] for name in os.environ if name.startswith(("PIP_", "SSL_", "http"))})
        words = [folder / "venv" / "bin" / "python", "-I", "-m", "pip", "install", "-q", "--no-cache-dir"]
        subprocess.run([*words, "--only-binary", ":all:", wheel], env=environment, cwd=folder, check=True)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def as_a_service() -> List[str]:
    """Words before a command: another user, without a network, as far as this user may."""
    words: List[str] = []
    for more in (
        ["unshare", "-n"],
        ["setpriv", f"--reuid={SERVICE_USER}", f"--regid={SERVICE_USER}", "--clear-groups"],
    ):
        if shutil.which(more[0]) and subprocess.run([*words, *more, "true"], capture_output=True).returncode == 0:
            words += [str(shutil.which(more[0])), *more[1:]]
    return words


@pytest.fixture(scope="module")
def service(place: Path) -> Run:
    """Runs a command of the virtual environment as a service runs it."""
    before = as_a_service()
    environment: Dict[str, str] = {"PATH": f"{place / 'venv' / 'bin'}", "HOME": "/nonexistent"}

    def run(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*before, *words], env={**environment, **variables}, cwd="/", stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    run("hakmem", "--version")  # what Python compiles on a first start is not measured
    return run


def library(place: Path) -> Path:
    (found,) = place.rglob("libhakmem.so")
    return found


def test_run(service: Run, place: Path) -> None:
    done = service("hakmem", "run", "-v", "--", "/bin/sh", "-c", "/bin/ls / >/dev/null; exit 7")
    assert done.returncode == 7, done.stderr
    assert f"({library(place)})" in done.stderr and "wall" in done.stderr
    done = service("python", "-m", "hakmem", "run", "--", "/bin/ls", "/")
    assert done.returncode == 0 and "hakmem 0.1.0 served malloc" in done.stderr


def test_the_process_sees_itself(service: Run) -> None:
    code = "import hakmem; s = hakmem.stats(); print(s.memory_resident > 1 << 20, hakmem.collect() >= 0, s.version)"
    done = service("hakmem", "run", "-q", "--", "python", "-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True True 1\n", "")
    done = service("python", "-c", "import hakmem; hakmem.stats()")
    assert done.returncode == 1 and "NotActiveError" in done.stderr


def test_env_fast_and_policy(service: Run, place: Path) -> None:
    assert service("hakmem", "env").stdout == f"export LD_PRELOAD={library(place)}\n"
    done = service("hakmem", "env", "--fast", "--path")
    assert done.stdout == f"{library(place).with_name('libhakmem-fast.so')}\n"
    done = service("python", "-c", "import hakmem; print(hakmem.is_active())", LD_PRELOAD=done.stdout.strip())
    assert done.stdout == "True\n"
    code = "from hakmem.policy_library import PolicyLibrary; print(PolicyLibrary().price('lean', None))"
    assert service("python", "-c", code).stdout.strip().isdigit()


def test_commands_that_look_inside(service: Run, place: Path) -> None:
    """Of a process that runs on the wheel's library: the tool attaches to it, once it has the signal's handler."""
    script = f"""
LD_PRELOAD={library(place)} /bin/sleep 100 &
tries=0
until
  caught=$(/bin/grep ^SigCgt: /proc/$!/status)
  [ $((0x0${{caught##*[!0-9a-f]}} >> {DEFAULT - 1} & 1)) = 1 ]
do
  tries=$((tries + 1))
  if [ $tries = 600 ] || ! kill -0 $!; then
    echo "no handler of signal {DEFAULT}: $caught" >&2
    break
  fi
  /bin/sleep 0.05
done
for command in 'stats --json' explain 'top --once'; do
  hakmem $command $! || echo "$command: exit code $?" >&2
done
kill $!
"""
    done = service("/bin/sh", "-c", script)
    assert done.stderr == ""
    assert '"schema": 2' in done.stdout and "resident" in done.stdout


def test_whole_commands(service: Run, place: Path) -> None:
    done = service("hakmem", "doctor")
    assert done.returncode == 0, done.stdout
    done = service(
        "hakmem", "profile", "--by", "alloc", "--", "python", "-c", "x = [bytes(1000) for _ in range(100000)]"
    )
    assert done.returncode == 0 and "_PyEval_EvalFrameDefault" in done.stderr, done.stderr
    done = service("hakmem", "compare", "--rounds", "1", "--allocators", "hakmem-fast", "--", "/bin/true")
    assert done.returncode == 0, done.stderr
    done = service("hakmem", "compare", "--plot", "/tmp/x.svg", "--", "/bin/true")
    assert done.returncode == 125
    assert done.stderr == (
        "hakmem: plots need matplotlib, which cannot be imported (no such module): pip install 'hakmem[plot]'\n"
    )
    assert service("hakmem", "bench").returncode == 125


# ---- Another machine's wheel.


@pytest.mark.skipif(platform.machine() == "aarch64", reason="the wheel of this machine was tested above")
@pytest.mark.skipif(shutil.which("qemu-aarch64") is None, reason="qemu-user is not installed")
@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="no compiler for arm64")
def test_arm64_under_qemu(tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel_of(of_machine("aarch64"))) as archive:
        for name in NATIVE:
            (tmp_path / name).write_bytes(archive.read(f"hakmem/native/{name}"))
            (tmp_path / name).chmod(0o755)
    source = tmp_path / "program.c"
    source.write_text(
        "#include <pthread.h>\n#include <stdlib.h>\n#include <string.h>\n"
        "static void *work(void *none) {\n  void *kept[200] = {0};\n"
        "  for (int i = 0; i < 100000; i++) {\n    int slot = i * 7919 % 200;\n    free(kept[slot]);\n"
        "    kept[slot] = memset(malloc(i % 5000 + 1), i, i % 5000 + 1);\n  }\n"
        "  for (int i = 0; i < 200; i++) free(kept[i]);\n  return none;\n}\n"
        "int main(void) {\n  pthread_t threads[4];\n"
        "  for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, 0);\n"
        "  for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);\n  return 0;\n}\n"
    )
    program = tmp_path / "program"
    subprocess.run(["aarch64-linux-gnu-gcc", "-O1", "-pthread", source, "-o", program], check=True)
    qemu = ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]
    for name in ("libhakmem.so", "libhakmem-fast.so", "libhakmem-secure.so"):
        report = tmp_path / f"{name}.json"
        variables = (f"LD_PRELOAD={tmp_path / name}", f"HAKMEM_STATS_FILE={report}")
        words = [*qemu, *(word for variable in variables for word in ("-E", variable)), str(program)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(report.read_text())["events"]["refill"] > 100
    # The launcher is static and starts by itself; it starts a program of its own machine, here itself.
    launcher = str(tmp_path / build_wheel.LAUNCHER)
    done = subprocess.run(["qemu-aarch64", launcher], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.startswith("usage: launch")


MUSL_PROGRAM = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void *work(void *unused) {
  for (int i = 0; i < 10000; i++) free(malloc(i % 5000));
  return unused;
}
int main(void) {
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, work, NULL);
  for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
  puts("done");
}
"""


def test_a_program_of_musl(tmp_path: Path) -> None:
    """The wheel's library serves a program that runs on musl."""
    compiler = shutil.which("musl-gcc")
    if compiler is None or platform.machine() != "x86_64":
        pytest.skip("no musl-gcc for the wheel's machine")
    target = next(target for target in build_wheel.TARGETS if target.zig == "x86_64-linux-musl")
    with zipfile.ZipFile(wheel_of(target)) as archive:
        library = archive.extract("hakmem/native/libhakmem.so", tmp_path)
    (tmp_path / "program.c").write_text(MUSL_PROGRAM)
    subprocess.run([compiler, tmp_path / "program.c", "-o", tmp_path / "program"], check=True)
    done = subprocess.run(
        [tmp_path / "program"], env={"LD_PRELOAD": library, "HAKMEM_STATS": "1"}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert done.stderr.startswith("hakmem: memory")
