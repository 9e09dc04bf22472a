"""Pythons that are newer than the one that runs the tests, where there are any."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

MINORS = (14, 13, 12)


@cache
def newer_python(*minors: int) -> str:
    """The first of these that is there, by default the newest; without one its test is skipped."""
    for minor in minors or MINORS:
        name = f"python3.{minor}"
        known = Path.home().glob(f".pyenv/versions/*/bin/{name}")
        for python in [shutil.which(name), *map(str, known)]:
            # Where pyenv is, what is found may be a script that finds no Python.
            if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
                return python
    wanted = " or ".join(f"3.{minor}" for minor in sorted(minors or MINORS))
    pytest.skip(f"there is no Python {wanted}")
