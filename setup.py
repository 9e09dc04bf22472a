"""Adds the library of compiled kernels to a wheel; all else about the package stands in pyproject.toml."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

WITHOUT_VARIABLE = "CHIMBUKO_PURE"
"""Environment variable for a wheel without the library, for any machine: its first run compiles kernels."""


class WithKernels(build_py):
    """Copies the sources, and compiles the kernels among them."""

    def run(self) -> None:
        """Build the library beside the copied sources: its name is a fingerprint of them."""
        super().run()
        if self.editable_mode or not Platform.has_ext_modules(self.distribution):
            return
        root = Path(self.build_lib).absolute()
        environment = os.environ | {"PYTHONPATH": str(root), "CHIMBUKO_KERNELS_AS": "source"}
        folder = root / "chimbuko" / "core" / "kernels" / "compiled"
        words = [sys.executable, "-m", "chimbuko.core.kernels.build", str(folder)]
        subprocess.run(words, cwd=root, env=environment, check=True)


class Platform(Distribution):
    """A distribution with a library is for one kind of machine and one version of Python."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel gets the library."""
        return not os.environ.get(WITHOUT_VARIABLE)


setup(distclass=Platform, cmdclass={"build_py": WithKernels})
