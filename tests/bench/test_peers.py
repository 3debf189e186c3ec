"""make peers: the table is complete, and only what really serves malloc gets onto the list."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest
from bench_support import BENCH, read_toml

pytest.importorskip("tomllib", reason="reading the tables needs Python 3.11")
FETCH = BENCH / "peers" / "fetch.py"


@pytest.fixture(scope="module")
def fetch() -> Any:
    spec = importlib.util.spec_from_file_location("fetch", FETCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["fetch"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def probe(fetch: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built: Path = fetch.build_probe(tmp_path_factory.mktemp("probe"))
    return built


def test_table_is_complete() -> None:
    table = read_toml(BENCH / "peers" / "peers.toml")["peer"]
    assert len({peer["name"] for peer in table}) == len(table)
    for peer in table:
        assert peer["symbol"] and peer["notes"]
        if "crate" in peer:
            assert re.fullmatch(r"[0-9a-f]{64}", peer["sha256"]) and peer["version"]
            assert "{output}" in peer["build"][-1]
        else:
            assert peer["package"] and peer["library"]


def test_hakmem_would_be_listed(fetch: Any, probe: Path, hakmem: Path) -> None:
    fetch.verify(probe, hakmem, "hakmem_version")


def test_wrong_symbol_is_refused(fetch: Any, probe: Path, hakmem: Path) -> None:
    with pytest.raises(fetch.Unavailable, match=r"does not serve mallctl \(-\)"):
        fetch.verify(probe, hakmem, "mallctl")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("void mallctl(void) {}", r"does not serve malloc \(.*libc"),
        ("void *malloc(unsigned long size) { return (void *)(size & 0); } void mallctl(void) {}", "ends with"),
        ("int sleep(unsigned);\nvoid *malloc(unsigned long size) { for (;;) sleep(size != 0); }", "hangs"),
        (
            "extern void *__libc_malloc(unsigned long); void mallctl(void) {}\n"
            "void *malloc(unsigned long size) { return __libc_malloc(size); }",
            "does not serve free .*, calloc .*realloc",
        ),
    ],
)
def test_impostors_are_refused(
    fetch: Any, probe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    compile_c: Callable[[Path, Sequence[str]], Path], source: str, said: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(fetch, "PROBE_SECONDS", 2)
    (tmp_path / "impostor.c").write_text(source)
    library = compile_c(tmp_path / "impostor.c", ["-fno-builtin", "-fPIC", "-shared", "-w"])
    with pytest.raises(fetch.Unavailable, match=said):
        fetch.verify(probe, library, "mallctl")


def test_what_fails_is_left_out(fetch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    table = tmp_path / "peers.toml"
    table.write_text(
        '[[peer]]\nname = "absent"\nsymbol = "absent"\nnotes = ""\npackage = "absent"\nlibrary = "libabsent.so.1"\n'
    )
    monkeypatch.setattr(fetch, "TABLE", table)
    monkeypatch.setattr(sys, "argv", ["fetch.py", "--output", str(tmp_path / "peers")])
    assert fetch.main() == 2
    assert "left out: absent: libabsent.so.1 is not installed" in capsys.readouterr().err
    (glibc,) = json.loads((tmp_path / "peers" / "peers.json").read_text())
    assert glibc["name"] == "glibc" and glibc["library"] is None and glibc["version"]


def test_failed_build_is_reported(fetch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crates = fetch.Crates([], tmp_path)
    monkeypatch.setattr(crates, "source", lambda peer: tmp_path)
    peer = {"name": "bad", "version": "1", "build": [["sh", "-c", "echo sorry; exit 3"]]}
    with pytest.raises(fetch.Unavailable, match=r"(?s)sh -c .*failed.*sorry"):
        fetch.build(peer, crates, tmp_path, 1, False)
    peer["build"] = [["true"]]
    with pytest.raises(fetch.Unavailable, match=r"made no bad\.so"):
        fetch.build(peer, crates, tmp_path, 1, False)
    peer["build"] = [["nonexistent-compiler"]]
    with pytest.raises(fetch.Unavailable, match="nonexistent-compiler is not installed"):
        fetch.build(peer, crates, tmp_path, 1, False)
    assert not (tmp_path / "bad.so").exists()


def test_wrong_sum_is_refused(fetch: Any, tmp_path: Path) -> None:
    peer = {"name": "p", "crate": "c", "crate_version": "1.2.3", "sha256": "0" * 64}
    source = tmp_path / "vendor" / "c-1.2.3+commit"
    source.mkdir(parents=True)
    (source / ".cargo-checksum.json").write_text('{"files": {}, "package": "1234"}')
    with pytest.raises(fetch.Unavailable, match="has the sum 1234"):
        fetch.Crates([peer], tmp_path).source(peer)


@pytest.mark.parametrize("arguments", [["--only", "nobody"], ["--jobs", "0"], ["--colour"]])
def test_wrong_options(arguments: Sequence[str]) -> None:
    done = subprocess.run([sys.executable, str(FETCH), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "fetch.py: error:" in done.stderr
