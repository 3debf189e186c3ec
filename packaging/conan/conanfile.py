"""The Conan package of this checkout: `conan create packaging/conan` (docs/recipes/cxx.md).

The package has the libraries, the headers and hakmem's own CMake files, so find_package(hakmem) gives the same targets
as an installed hakmem: hakmem::hakmem, hakmem::hakmem_static, hakmem::hakmem_fast and hakmem::hakmem_secure.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

NOT_SOURCES = (".*", "build/*", "dist/*", "tests/*", "*/target/*", "*.pyc")


class Hakmem(ConanFile):
    name = "hakmem"
    description = "A general-purpose memory allocator for 64-bit Linux"
    license = "MIT"
    topics = ("allocator", "malloc", "memory")
    package_type = "shared-library"
    settings = ("os", "arch", "compiler", "build_type")

    @property
    def _checkout(self) -> Path:
        return Path(self.recipe_folder).parents[1]

    def set_version(self) -> None:
        header = load(self, str(self._checkout / "include" / "hakmem" / "hakmem.h"))
        numbers = re.findall(r"^#define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header, re.MULTILINE)
        self.version = self.version or ".".join(numbers)

    def export_sources(self) -> None:
        copy(self, "*", str(self._checkout), self.export_sources_folder, excludes=NOT_SOURCES)

    def validate(self) -> None:
        if self.settings.os != "Linux" or self.settings.arch not in ("x86_64", "armv8"):
            raise ConanInvalidConfiguration("hakmem runs on 64-bit Linux only: x86-64 and arm64")

    def layout(self) -> None:
        cmake_layout(self)

    def generate(self) -> None:
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables.update({"HK_TESTS": "OFF", "HK_INSTALL": "ON"})
        toolchain.generate()

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self) -> None:
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self) -> None:
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "hakmem")]
        # For generators without CMake's targets. The object refers to malloc, so that linking is enough.
        self.cpp_info.libs = ["hakmem"]
        link_object = os.path.join(self.package_folder, "lib", "hakmem-link.o")
        self.cpp_info.exelinkflags = [link_object]
        self.cpp_info.sharedlinkflags = [link_object]
