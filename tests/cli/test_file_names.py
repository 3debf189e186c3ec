"""Programs and files whose names are bytes that are no UTF-8, in every command that reads or starts them."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterator
from xml.etree import ElementTree

import pytest
from cli_support import Compile, Tool
from hakmem.profile.schema import profile_class
from profile_support import named
from watched_support import SOURCE, Watched, plain

LEAKY = r"""
#include <stdlib.h>
#include <string.h>
int main(void) {
  void *volatile lost = malloc(100000);
  memset(lost, 1, 100000);
  lost = NULL;
  return 0;
}
"""
FOLDER = os.fsdecode(b"caf\xe9")


@pytest.fixture
def leaky(compile_c: Compile, tmp_path: Path) -> str:
    """Where a program lies that loses a block."""
    return _moved(compile_c("leaky", LEAKY, "-g"), tmp_path)


def _moved(program: Path, folder: Path) -> str:
    (folder / FOLDER).mkdir(exist_ok=True)
    return shutil.copy(program, folder / FOLDER)


@pytest.fixture
def sampled(compile_c: Compile, library: Path, tmp_path: Path) -> Iterator[Watched]:
    """A process that samples everything."""
    program = Path(_moved(compile_c("holder", SOURCE), tmp_path))
    found = Watched(program, library, HAKMEM_PROFILE="1", HAKMEM_PROFILE_RATE="1")
    with found.process:
        try:
            found.do("grow 10")
            yield found
        finally:
            found.process.kill()


def good(tool: Tool, *words: str) -> "subprocess.CompletedProcess[bytes]":
    """It ends well, and without complaint."""
    done = subprocess.run(tool.words(*words), cwd=tool.folder, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr and b"damaged" not in done.stderr
    return done


def test_of_a_program(tool: Tool, library: Path, leaky: str) -> None:
    assert b"100,000 bytes" in good(tool, "leaks", "--", leaky).stderr
    assert b"main" in good(tool, "leaks", "--json", f"{FOLDER}/leaks.json", "--", leaky).stderr
    good(tool, "run", "--json", f"{FOLDER}/run.json", "--", leaky)
    assert os.fsencode(leaky) in good(tool, "doctor", "--", leaky).stdout
    good(tool, "compare", "--rounds", "1", "--warmup", "0", "--json", "-", "--csv", "runs.csv", "--", leaky)
    exports = ("--folded", "folded", "--flame", "flame.svg", "--speedscope", "speedscope.json")
    good(tool, "profile", "--rate", "1", "-o", f"{FOLDER}/p.pb.gz", *exports, "--", leaky)
    assert b"main" in good(tool, "profile", "--by", "alloc", "--input", f"{FOLDER}/p.pb.gz").stdout
    good(tool, "diff", f"{FOLDER}/p.pb.gz", f"{FOLDER}/p.pb.gz")


def test_of_a_process(tool: Tool, sampled: Watched) -> None:
    pid = str(sampled.pid)
    assert b"holder" in good(tool, "explain", pid).stdout
    good(tool, "leaks", pid)
    good(tool, "profile", "--by", "pinned", pid)
    good(tool, "report", "--seconds", "0", "-o", f"{FOLDER}/page.html", pid)
    (tool.folder / FOLDER / "snapshot").write_bytes(good(tool, "stats", "--json", pid).stdout)
    good(tool, "explain", f"{FOLDER}/snapshot")
    good(tool, "top", "--once", pid)


def test_control_characters_in_a_message_are_escaped(tool: Tool, tmp_path: Path) -> None:
    name = f"./{FOLDER}\x1b[31m\x9b\nhakmem: all is well\u202e"
    done = subprocess.run(tool.words("run", "--", name), cwd=tmp_path, capture_output=True, timeout=60, check=False)
    told = b"hakmem: ./caf\xe9\\x1b[31m\\x9b\\nhakmem: all is well\\u202e: not found\n"
    assert (done.returncode, done.stderr) == (127, told)


def test_a_profile_that_the_library_writes(tool: Tool, library: Path, leaky: str) -> None:
    """Other readers refuse one with a text that is no UTF-8. This tool finds the file all the same."""
    options = {"HAKMEM_PROFILE": "1", "HAKMEM_PROFILE_RATE": "1", "HAKMEM_PROFILE_FILE": str(tool.folder / "p.pb.gz")}
    subprocess.run([leaky], env={**plain(library), **options}, check=True, timeout=60)
    message = profile_class()()
    message.ParseFromString(gzip.decompress((tool.folder / "p.pb.gz").read_bytes()))
    texts = [text.decode("utf-8") for text in message.string_table]
    assert any(text.endswith(r"/caf\udce9/leaky") for text in texts)
    for name in ("p.pb.gz", "again.pb.gz"):
        done = good(tool, "profile", "--by", "alloc", "-o", "again.pb.gz", "--input", name)
        assert re.search(rb" main$", done.stdout, re.MULTILINE) and b"leaky" not in done.stderr, done


def test_a_plot_has_such_a_title(tool: Tool, library: Path, leaky: str) -> None:
    pytest.importorskip("matplotlib")
    good(tool, "compare", "--rounds", "1", "--warmup", "0", "--plot", f"{FOLDER}/plot.svg", "--", leaky)
    assert "caf?" in (tool.folder / FOLDER / "plot.svg").read_text("utf-8")


def test_a_plot_has_a_command_as_it_stands(tool: Tool, library: Path) -> None:
    """Neither a formula nor a damaged one, and no character that XML has not."""
    pytest.importorskip("matplotlib")
    script = "a=$HOME; : $a_{$ \\q \x1b[31m \x01"
    good(tool, "compare", "--rounds", "1", "--warmup", "0", "--plot", "plot.svg", "--", "sh", "-c", script)
    comments = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    picture = ElementTree.parse(tool.folder / "plot.svg", comments)
    texts = [one.text or "" for one in picture.iter(ElementTree.Comment)]
    assert any(r"a=$HOME; : $a_{$ \q \x1b[31m \x01" in text for text in texts), texts[-3:]


EVIL = "it's\x1b[31m\\"


def test_control_characters_in_a_result_are_escaped(
    tool: Tool, library: Path, compile_c: Compile, tmp_path: Path
) -> None:
    """A shell takes the program that the last line names."""
    (tmp_path / EVIL).mkdir()
    program = shutil.copy(compile_c("leaky", LEAKY, "-g"), tmp_path / EVIL)
    for words in (
        ("doctor",),
        ("leaks", "--"),
        ("compare", "--allocators", "hakmem", "--rounds", "1", "--warmup", "0", "--"),
    ):
        done = tool(*words, program)
        text = done.stdout + done.stderr
        assert done.returncode == 0 and "\x1b" not in text and EVIL.replace("\x1b", "") not in text, text
        (tip,) = re.findall(r"^next: hakmem((?:.*\\\n)*.*)$", text, re.MULTILINE)  # the lines that a shell takes as one
        if bash := shutil.which("bash"):
            shown = subprocess.run([bash, "-c", f"printf '%s\\n' {tip}"], stdout=subprocess.PIPE, check=True)
            assert os.fsencode(program) in shown.stdout.splitlines()


def test_control_characters_in_the_name_of_a_process_are_escaped(tool: Tool, library: Path, compile_c: Compile) -> None:
    renamed = SOURCE.replace("int main(void) {", 'int main(void) { prctl(PR_SET_NAME, "it\\033[31m");')
    process = Watched(compile_c("renamed", f"#include <sys/prctl.h>\n{renamed}"), library)
    with process.process:
        for words in (("stats",), ("top", "--once"), ("explain",)):
            text = tool(*words, process.pid).stdout
            assert re.search(r"\bit(\\x1b|\?)\[31m", text) and "\x1b" not in text, text
        process.end()


def test_a_path_with_the_ends_of_lines(tool: Tool, library: Path, compile_c: Compile, tmp_path: Path) -> None:
    """All but the newline stand in the kernel's files as they are."""
    folder = tmp_path / "a\x0b\x0c\r\x1c\x85\u2028b"
    folder.mkdir()
    process = Watched(compile_c("ends", SOURCE), Path(shutil.copy(library, folder / "libhakmem.so")))
    with process.process:
        done = tool("explain", "--json", "-", process.pid)
        assert done.returncode == 0, done.stderr
        (part,) = (one for one in json.loads(done.stdout)["parts"] if one["part"] == "not_malloc")
        assert any(f"{folder}/libhakmem.so (" in why for why in part["why"]), part
        process.end()


def test_control_characters_in_a_profile_are_escaped(tool: Tool, tmp_path: Path) -> None:
    for name, blocks in (("before", 1), ("after", 2)):
        (tmp_path / name).write_bytes(named({("it\x1b[31m",): (blocks, blocks * 100, blocks, blocks * 100)}))
    text = tool("diff", "before", "after").stdout
    assert "it\\x1b[31m" in text and "\x1b" not in text
