#!/usr/bin/env python3
"""Writes the man pages of docs/man: hakmem(1) and one for each command of the tool, hakmem(3) from the public header,
hakmem-options(7) from option.def. And the completions of cli/completions, by click.

With --check the tool writes nothing, and a stale file is an error. Without click (cli/requirements.txt) it does
nothing.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
from pathlib import Path
from typing import Iterator

from man.interface_page import interface_page
from man.options_page import options_page
from man.tool_pages import tool_pages

ROOT = Path(__file__).resolve().parents[1]
PAGES = "docs/man"
COMPLETIONS = "cli/completions"
# The shells, and the file names under which they find a command's completion.
SHELLS = {"bash": "hakmem", "zsh": "_hakmem", "fish": "hakmem.fish"}


def pages(root: Path) -> Iterator[tuple[str, str]]:
    from hakmem import __version__

    yield from tool_pages()
    yield "hakmem.3", interface_page((root / "include/hakmem/hakmem.h").read_text(encoding="utf-8"), __version__)
    yield "hakmem-options.7", options_page(root / "src/policy", __version__)


def completions() -> Iterator[tuple[str, str]]:
    """What click writes for each shell: it asks the tool itself for the words. The first line of zsh's is a command."""
    from click.shell_completion import get_completion_class
    from hakmem.main import cli

    for shell, name in SHELLS.items():
        kind = get_completion_class(shell)
        assert kind is not None
        yield f"{shell}/{name}", kind(cli, {}, "hakmem", "_HAKMEM_COMPLETE").source().strip() + f"\n{by_click()}\n"


def by_click() -> str:
    """The last line of a completion: another version of click writes another one."""
    return f"# Written by tools/generate_man.py (make format), with click {importlib.metadata.version('click')}."


def is_current(path: Path, new: str) -> bool:
    """Whether a file says the same; of a completion, as far as this version of click wrote it."""
    if not path.exists():
        return False
    old = path.read_text(encoding="utf-8")
    return old == new or (path.is_relative_to(ROOT / COMPLETIONS) and by_click() not in old)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is stale")
    check = parser.parse_args().check
    sys.path.insert(0, str(ROOT / "cli"))
    try:
        wanted = {ROOT / PAGES / name: text for name, text in pages(ROOT)}
        wanted.update({ROOT / COMPLETIONS / name: text for name, text in completions()})
    except ModuleNotFoundError as error:
        print(f"man: left out: no module {error.name} (tools/bootstrap.sh test)")
        return 0
    stale = [path for path, text in wanted.items() if not (is_current(path, text) if check else _is(path, text))]
    stale += [path for path in (ROOT / PAGES).iterdir() if path not in wanted]
    for path in stale:
        print(f"man: {'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if check:
            continue
        if path not in wanted:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted[path], encoding="utf-8")
    if stale and check:
        print("man: `make format` writes them")
    elif not stale:
        print("man: ok")
    return 1 if stale and check else 0


def _is(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
