"""Readable names of C++ and Rust functions.

C++ is read by the C++ runtime's own __cxa_demangle, Rust by binutils' c++filt where it is installed, else by the
package rust_demangler. A name that none of them can read stays as it is.
"""

from __future__ import annotations

import contextlib
import ctypes
import io
import re
import shutil
import subprocess
from functools import lru_cache
from typing import Callable, Dict, Iterable, List, Optional

_FILTER_SECONDS = 30
# A Rust name of the older form is a C++ name that ends with a hash.
_RUST_LEGACY = re.compile(r"_?_ZN.*17h[0-9a-f]{16}E")
# c++filt prints the crates' hashes, `core[c1f1a4ba060b9bfa]::ptr`; an array's or slice's bracket never follows a name.
_CRATE_HASH = re.compile(r"(?<=\w)\[[0-9a-f]{1,16}\]")
_LEGACY_HASH = re.compile(r"::h[0-9a-f]{16}$")
# The suffix of a compiler's clone: the readable name is the function's. Rust's v0 names have it as well (`.llvm.123`).
_CLONE = re.compile(r"(\.(?:part|isra|constprop|cold|llvm|lto_priv)(?:\.\d+)*|\.\d+)+$")


def demangle_all(names: Iterable[str]) -> Dict[str, str]:
    """The readable form of each name."""
    readable: Dict[str, str] = {}
    rust: List[str] = []
    for name in dict.fromkeys(names):
        core = _CLONE.sub("", name)
        if core.startswith("_R") or _RUST_LEGACY.fullmatch(core):
            rust.append(name)
        else:
            readable[name] = _cplusplus(core) if core.startswith("_Z") else name
    cores = [_CLONE.sub("", name) for name in rust]
    for name, core, text in zip(rust, cores, _rust(cores)):
        readable[name] = name if text == core else _LEGACY_HASH.sub("", text)
    return readable


@lru_cache(maxsize=None)
def _runtime() -> Optional[Callable[[str], Optional[str]]]:
    """__cxa_demangle of the C++ runtime, None where there is none."""
    for file in ("libstdc++.so.6", "libc++abi.so.1"):
        with contextlib.suppress(OSError, AttributeError):
            call = ctypes.CDLL(file).__cxa_demangle
            call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)]
            call.restype = ctypes.c_void_p
            release = ctypes.CDLL(None).free
            release.argtypes = [ctypes.c_void_p]
            return lambda name: _call(call, release, name)
    return None


def _call(call: Callable[..., Optional[int]], release: Callable[[int], None], name: str) -> Optional[str]:
    status = ctypes.c_int()
    text = call(name.encode(), None, None, ctypes.byref(status))
    if not text:
        return None
    try:
        return ctypes.string_at(text).decode("utf-8", "replace")
    finally:
        release(text)


def _cplusplus(name: str) -> str:
    runtime = _runtime()
    if runtime is not None:
        return runtime(name) or name
    return (_filtered([name]) or [name])[0]


def _rust(names: List[str]) -> List[str]:
    if not names:
        return []
    filtered = _filtered(names)
    if filtered is not None:
        return [_CRATE_HASH.sub("", text) for text in filtered]
    return [_by_package(name) for name in names]


def _filtered(names: List[str]) -> Optional[List[str]]:
    """The names that c++filt returns, None where there is no c++filt."""
    program = shutil.which("c++filt")
    if program is None or any("\n" in name for name in names):
        return None
    try:
        done = subprocess.run(
            [program], input="\n".join(names) + "\n", capture_output=True, text=True, errors="replace",
            timeout=_FILTER_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.splitlines()
    return lines if done.returncode == 0 and len(lines) == len(names) else None


def _by_package(name: str) -> str:
    """Wraps rust_demangler, which raises any exception for names that it cannot read, and prints."""
    try:
        import rust_demangler

        with contextlib.redirect_stdout(io.StringIO()):
            text = str(rust_demangler.demangle(name))
    except Exception:
        return name
    return text.replace("{closure:#", "{closure#") or name
