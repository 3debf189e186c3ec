"""<hakmem/hakmem.hpp> under every compiler that is here, in C++17, 20 and 23, warnings as errors."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import consumer
import pytest

STANDARDS = ("c++17", "c++20", "c++2b")
# Without exceptions, without RTTI, and optimised: then the compiler sees into the allocator.
VARIANTS = ("", "-fno-exceptions", "-fno-exceptions -fno-rtti -O2", "-O2 -D_GLIBCXX_ASSERTIONS -D_FORTIFY_SOURCE=2")


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("standard", STANDARDS)
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_containers(tmp_path: Path, compiler: str, standard: str, variant: str) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    words = (compiler, f"-std={standard}", *variant.split())
    assert consumer.compile_containers(tmp_path / "containers", *words) == "ok\n"


@pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="ziglang is not installed")
def test_libcxx(tmp_path: Path) -> None:
    """LLVM's C++ library, whose vectors and strings of C++23 call allocate_at_least."""
    source = tmp_path / "program.cc"
    source.write_text(
        "#include <cstdio>\n#include <vector>\n#include <hakmem/hakmem.hpp>\n"
        "#ifndef __cpp_lib_allocate_at_least\n#error none\n#endif\n"
        "int main() {\n  std::vector<char, hakmem::allocator<char>> bytes;\n  bytes.reserve(1000);\n"
        '  std::printf("%d\\n", bytes.capacity() == hakmem_malloc_usable_size(bytes.data()));\n}\n'
    )
    zig = (sys.executable, "-m", "ziglang", "c++", "-std=c++23", "-Werror", "-Wall", "-Wextra")
    include = f"-I{consumer.ROOT / 'include'}"
    library = (consumer.BUILD / "hakmem-link.o", consumer.BUILD / "libhakmem.so", f"-Wl,-rpath,{consumer.BUILD}")
    for file, expected in ((source, "1\n"), (consumer.HERE / "standard_containers.cc", "ok\n")):
        consumer.run(*zig, include, file, *library, "-o", tmp_path / "program")
        assert consumer.run(tmp_path / "program") == expected
