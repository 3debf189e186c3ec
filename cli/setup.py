"""Makes the package a wheel for one platform where tools/build_wheel.py has put built files into hakmem/native. All
else stands in pyproject.toml."""

import os

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel

PLATFORM = os.environ.get("HAKMEM_WHEEL_PLATFORM")


class PlatformPackage(Distribution):
    """Lies in the folder of packages that belong to one platform."""

    def has_ext_modules(self):
        return PLATFORM is not None


class PlatformWheel(bdist_wheel):
    """For every Python of a platform: the libraries do not use Python's interface."""

    def get_tag(self):
        return ("py3", "none", PLATFORM or "any")


setup(distclass=PlatformPackage, cmdclass={"bdist_wheel": PlatformWheel})
