"""What a wheel holds beside the sources: compiled kernels, the page, and a manual page.

All else about the package stands in pyproject.toml.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.build_py import build_py

WITHOUT_VARIABLE = "CHIMBUKO_PURE"
"""Environment variable for a wheel without the library, for any machine: its first run compiles kernels."""
HERE = Path(__file__).parent
PAGE = HERE / "viz" / "static" / "index.html"
MANUAL = Path("build", "chimbuko.1")


class Complete(build_py):
    """Copies the sources, and makes what is made of them."""

    def run(self) -> None:
        """Build the page where it is not built yet, the manual page, and the library beside the copied
        sources: its name is a fingerprint of them.
        """
        if not self.editable_mode and not PAGE.exists():
            for words in (["npm", "ci", "--no-audit", "--no-fund"], ["npm", "run", "build"]):
                subprocess.run(words, cwd=HERE / "viz" / "web", check=True)
        super().run()
        if self.editable_mode or not Platform.has_ext_modules(self.distribution):
            return
        root = Path(self.build_lib).absolute()
        # pip lets a build find what it requires by PYTHONPATH.
        paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
        environment = os.environ | {"PYTHONPATH": paths, "CHIMBUKO_KERNELS_AS": "source"}
        folder = root / "chimbuko" / "core" / "kernels" / "compiled"
        words = [sys.executable, "-m", "chimbuko.core.kernels.build", str(folder)]
        subprocess.run(words, cwd=root, env=environment, check=True)


class Platform(Distribution):
    """A distribution with a library is for one kind of machine and one version of Python."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel gets the library."""
        return not os.environ.get(WITHOUT_VARIABLE)


def manual() -> list[tuple[str, list[str]]]:
    """Write the manual page; return where it belongs. Who develops needs none."""
    if "editable_wheel" in sys.argv or not {"bdist_wheel", "install"} & set(sys.argv):
        return []
    MANUAL.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-m", "chimbuko.cli.manual"]
    text = subprocess.run(words, cwd=HERE, capture_output=True, text=True, check=True).stdout
    MANUAL.write_text(text)
    return [("share/man/man1", [str(MANUAL)])]


setup(distclass=Platform, cmdclass={"build_py": Complete}, data_files=manual())
