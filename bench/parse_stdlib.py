"""The demo's workload: parse every module of this interpreter's standard library into a syntax tree, on a few threads.

Prints one line that depends on nothing but the interpreter (files, trees, nodes, a digest), then one line that says
which file this process's `malloc` lives in.
"""

from __future__ import annotations

import ast
import hashlib
import os
import sys
import sysconfig
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, List, Optional, Tuple

# Third-party packages and test data do not belong to the library, and differ from machine to machine.
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "__pycache__", "test", "tests", "idle_test"}


def standard_library() -> List[Path]:
    """Every source file of the standard library, in a stable order."""
    root = Path(sysconfig.get_paths()["stdlib"])
    found: List[Path] = []
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if name not in SKIPPED_FOLDERS)
        found.extend(Path(folder, name) for name in sorted(names) if name.endswith(".py"))
    return found


def parse(path: Path) -> Optional[Tuple[int, bytes]]:
    """The number of nodes in the file's tree and a digest of their kinds; None for a file that is no Python."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    kinds = [type(node).__name__ for node in ast.walk(tree)]
    return len(kinds), hashlib.sha256(" ".join(kinds).encode()).digest()


def file_of_malloc() -> str:
    """The object file whose `malloc` this process calls: the first in the dynamic linker's search order that defines
    one.

    The address of `malloc` alone does not tell: in an executable with fixed addresses it is the executable's own stub.
    """
    import ctypes

    class ObjectInfo(ctypes.Structure):  # the head of struct dl_phdr_info
        _fields_ = [("base", ctypes.c_void_p), ("name", ctypes.c_char_p)]

    class SymbolInfo(ctypes.Structure):  # Dl_info
        _fields_ = [
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        ]

    process = ctypes.CDLL(None)
    objects: List[bytes] = []

    def note(info: Any, size: int, data: Any) -> int:
        objects.append(info.contents.name or b"")
        return 0

    visitor = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ObjectInfo), ctypes.c_size_t, ctypes.c_void_p)
    process.dl_iterate_phdr(visitor(note), None)
    for name in objects:
        if not name.startswith(b"/"):  # the executable and the kernel's page
            continue
        library = ctypes.CDLL(os.fsdecode(name))
        if not hasattr(library, "malloc"):
            continue
        symbol = SymbolInfo()
        process.dladdr(ctypes.cast(library.malloc, ctypes.c_void_p), ctypes.byref(symbol))
        if symbol.file == name:  # its own, not one that it depends on
            return os.fsdecode(name)
    return "unknown"


def main() -> int:
    """Parse, then print the summary and where malloc is."""
    warnings.simplefilter("ignore")  # old escapes in old modules
    threads = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    files = standard_library()
    with ThreadPoolExecutor(threads) as pool:
        trees = [tree for tree in pool.map(parse, files) if tree is not None]
    digest = hashlib.sha256(b"".join(tree_digest for _, tree_digest in trees)).hexdigest()[:16]
    print(f"{len(files)} files, {len(trees)} trees, {sum(nodes for nodes, _ in trees)} nodes, digest {digest}")
    try:
        print(f"malloc: {file_of_malloc()}")
    except ImportError:  # an interpreter without ctypes
        print("malloc: unknown")
    return 0


if __name__ == "__main__":
    sys.exit(main())
