#!/usr/bin/env python3
"""Checks the interface of the built shared libraries.

They export exactly the names of src/override/hakmem.map, with its versions, and those of standard_names.txt, without a
version. Their names have the number of the interface, they need no library but the C library, take at most a few bytes
of static TLS (a program that opens them late has little), and are fully position independent. From the C library they
take only functions that this file names: a system call of a function would come past os/syscall.h, and so past the
sandbox.
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import sys
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile

ROOT = Path(__file__).resolve().parents[1]
LIBRARIES = ("libhakmem.so", "libhakmem-fast.so", "libhakmem-secure.so")
SONAME_END = re.compile(r"\.so\.\d+$")
HIDDEN_VERSION = 0x8000  # a version that only programs of an older release are bound to
NEEDED_ALLOWED = re.compile(r"libc\.so\.6|ld-linux-[\w-]+\.so\.\d+")
STATIC_TLS_MAX_BYTES = 64
PF_X, PF_W = 1, 2
# What the C library and the compiler supply without a system call, or with calls that a second thread has proven
# (pthread_create); those that the program asks for (abort, fprintf), or where no filter may kill (sigaction).
IMPORTS_ALLOWED = frozenset(
    [
        "_ITM_deregisterTMCloneTable",
        "_ITM_registerTMCloneTable",
        "__cxa_finalize",
        "__gmon_start__",
        "__stack_chk_fail",
        "_ZSt15get_new_handlerv",
        "_ZSt17__throw_bad_allocv",
        "__cxa_begin_catch",
        "__cxa_end_catch",
        "__gxx_personality_v0",
        "__environ",
        "environ",
        "__errno_location",
        "__libc_single_threaded",
        "__register_atfork",
        "gnu_get_libc_version",
        "_dl_find_object",
        "dladdr",
        "dlsym",
        "getauxval",
        "__tls_get_addr",
        "memcmp",
        "memcpy",
        "memmove",
        "memset",
        "strcmp",
        "strlen",
        "strrchr",
        "__memcpy_chk",
        "__memmove_chk",
        "__memset_chk",
        "pthread_attr_destroy",
        "pthread_attr_init",
        "pthread_attr_setdetachstate",
        "pthread_attr_setstacksize",
        "pthread_create",
        "pthread_getcpuclockid",
        "pthread_key_create",
        "pthread_self",
        "pthread_setcanceltype",
        "pthread_setspecific",
        "abort",
        "fprintf",
        "__fprintf_chk",
        "sigaction",
    ]
)


def read_map(text: str) -> dict[str, str]:
    """The names, some of them patterns, that a version script makes global, with their versions."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", "", text, flags=re.DOTALL)
    versions: dict[str, str] = {}
    for node, body in re.findall(r"([\w.]+)\s*\{(.*?)\}", text, flags=re.DOTALL):
        for section in re.findall(r"global\s*:(.*?)(?=local\s*:|global\s*:|$)", body, flags=re.DOTALL):
            versions.update(dict.fromkeys(re.findall(r"[^\s;\"]+", section), node))
    return versions


def read_names(text: str) -> dict[str, str]:
    """The names of a plain list, which have no version."""
    return dict.fromkeys(re.sub(r"#[^\n]*", "", text).split(), "")


def imported_names(library: ELFFile) -> set[str]:
    """As `nm -D --undefined-only` lists them."""
    symbols = library.get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] == "SHN_UNDEF"}


def check_imports(imported: set[str]) -> list[str]:
    return [
        f"calls {name}, which may make a system call past os/syscall.h" for name in sorted(imported - IMPORTS_ALLOWED)
    ]


def exported_names(library: ELFFile) -> dict[str, str]:
    """As `nm -D --defined-only` lists them, without the version nodes' own symbols; with their versions."""
    definitions = library.get_section_by_name(".gnu.version_d")
    nodes: dict[int, str] = {}
    for number, (entry, names) in enumerate(definitions.iter_versions() if definitions else ()):
        nodes[entry["vd_ndx"]] = next(names).name if number else ""  # the first is the library itself
    versions = library.get_section_by_name(".gnu.version")
    found: dict[str, str] = {}
    for index, symbol in enumerate(library.get_section_by_name(".dynsym").iter_symbols()):
        is_global = symbol["st_info"]["bind"] in ("STB_GLOBAL", "STB_WEAK")
        if symbol.name and is_global and symbol["st_shndx"] not in ("SHN_UNDEF", "SHN_ABS"):
            version = versions.get_symbol(index)["ndx"] if versions else 1
            found[symbol.name] = nodes.get(version & ~HIDDEN_VERSION, "") if isinstance(version, int) else ""
    return found


def check_names(exported: dict[str, str], wanted: dict[str, str]) -> list[str]:
    patterns = {name for name in wanted if re.search(r"[*?\[]", name)}
    errors: list[str] = []
    for name, version in sorted(exported.items()):
        listed = name if name in wanted else next((one for one in patterns if fnmatch.fnmatchcase(name, one)), None)
        if listed is None:
            errors.append(f"exports {name}, which neither the map nor the list of names has")
        elif version != wanted[listed]:
            errors.append(f"exports {name} with {version or 'no version'}, not {wanted[listed] or 'without one'}")
    errors += [f"does not export {name}" for name in sorted(wanted.keys() - patterns - exported.keys())]
    errors += [
        f"exports nothing that matches {pattern}"
        for pattern in sorted(patterns)
        if not fnmatch.filter(exported, pattern)
    ]
    return errors


def check_shape(library: ELFFile) -> list[str]:
    errors: list[str] = []
    dynamic = library.get_section_by_name(".dynamic")
    assert isinstance(dynamic, DynamicSection)
    sonames = [tag.soname for tag in dynamic.iter_tags("DT_SONAME")]
    if not sonames or not SONAME_END.search(sonames[0]):
        errors.append(f"is called {''.join(sonames) or 'nothing'}, without the number of its interface")
    for tag in dynamic.iter_tags():
        if tag.entry.d_tag == "DT_NEEDED" and not NEEDED_ALLOWED.fullmatch(tag.needed):
            errors.append(f"needs {tag.needed}")
        if tag.entry.d_tag == "DT_TEXTREL":
            errors.append("has relocations in its code")
        if tag.entry.d_tag in ("DT_RPATH", "DT_RUNPATH"):
            errors.append(f"has a {tag.entry.d_tag}")
    headers = {segment["p_type"]: segment for segment in library.iter_segments()}
    tls = headers.get("PT_TLS")
    if tls is not None and tls["p_memsz"] > STATIC_TLS_MAX_BYTES:
        errors.append(f"takes {tls['p_memsz']} bytes of static TLS, more than {STATIC_TLS_MAX_BYTES}")
    if "PT_GNU_RELRO" not in headers:
        errors.append("is linked without relro")
    if "PT_GNU_STACK" not in headers or headers["PT_GNU_STACK"]["p_flags"] & PF_X:
        errors.append("requires an executable stack")
    for segment in library.iter_segments():
        if segment["p_type"] == "PT_LOAD" and segment["p_flags"] & PF_X and segment["p_flags"] & PF_W:
            errors.append("has a segment that is writable and executable")
    return errors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help="the folder of the libraries")
    parser.add_argument(
        "--map", type=Path, default=ROOT / "src/override/hakmem.map", help="the linker's version script"
    )
    parser.add_argument(
        "--names", type=Path, default=ROOT / "src/override/standard_names.txt", help="the names without a version"
    )
    arguments = parser.parse_args()
    wanted = read_map(arguments.map.read_text(encoding="utf-8"))
    wanted.update(read_names(arguments.names.read_text(encoding="utf-8")))
    errors: list[str] = []
    for name in LIBRARIES:
        with (arguments.build / name).open("rb") as file:
            library = ELFFile(file)
            found = check_names(exported_names(library), wanted) + check_shape(library)
            found += check_imports(imported_names(library))
        errors += [f"{name} {error}" for error in found]
    for error in errors:
        print(error)
    print(f"exports: {f'{len(errors)} errors' if errors else f'ok, {len(wanted)} names'}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
