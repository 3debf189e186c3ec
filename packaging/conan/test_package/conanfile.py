"""Builds and runs a C program, whose malloc has to be the package's, against the package that was just made."""

from __future__ import annotations

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, cmake_layout


class HakmemTest(ConanFile):
    settings = ("os", "arch", "compiler", "build_type")
    generators = ("CMakeToolchain", "VirtualRunEnv")

    def requirements(self) -> None:
        self.requires(self.tested_reference_str)

    def layout(self) -> None:
        cmake_layout(self)

    def build(self) -> None:
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self) -> None:
        if can_run(self):
            for kind in ("hakmem", "hakmem_static", "hakmem_fast", "hakmem_secure"):
                self.run(os.path.join(self.cpp.build.bindir, f"with_{kind}"), env="conanrun")
