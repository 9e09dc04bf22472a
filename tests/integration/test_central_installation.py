"""One installation for all users, who cannot write it: kernels that were compiled with it serve them.

The user is root without its capabilities, whom the rights bind of what belongs to somebody else.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import chimbuko
from tests.patience import PATIENCE_S

OWNER = 54321
"""Nobody has this number."""
COMPILING = "compiling kernels"
USE = """
from chimbuko.core.kernels.cache import are_compiled, use_cache
cache = use_cache()
print(cache, are_compiled(cache))
"""
DECLARED = """
import importlib, pkgutil, sys
from pathlib import Path
import chimbuko
from chimbuko.cli.maintain.warmup import compile_kernels
from numba.core.dispatcher import Dispatcher
compile_kernels()
for module in pkgutil.walk_packages(chimbuko.__path__, "chimbuko."):
    if ".kernels." in module.name:
        importlib.import_module(module.name)
for name, module in list(sys.modules.items()):
    for kernel in vars(module).values() if name.startswith("chimbuko.") else ():
        is_ours = isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == name
        if is_ours and kernel.stats.cache_path and "inline" not in kernel.targetoptions:
            # A checkout may have those of earlier days beside them, which stood at other lines.
            line = kernel.py_func.__code__.co_firstlineno
            kept = Path(kernel.stats.cache_path).glob(f"*.{kernel.__name__}-{line}.*.nbi")
            print(f"{name}.{kernel.__name__}", *kept)
"""


class Installation:
    """A copy of the package, with all kernels compiled, and users of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "chimbuko"
        ignored = shutil.ignore_patterns("web", "static")
        shutil.copytree(Path(chimbuko.__file__).parent, self.package, ignore=ignored)
        done = self._python("-m", "chimbuko", "warmup", home=folder / "administrator")
        assert done.returncode == 0, done.stderr
        for path in (self.package, *self.package.rglob("*")):
            os.chown(path, OWNER, OWNER)

    @property
    def compiled(self) -> dict[str, int]:
        """Files of compiled kernels, and when each was written."""
        return {str(path): path.stat().st_mtime_ns for path in self.package.rglob("*.nb?")}

    def as_user(self, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python as a user who can only read the installation."""
        return self._python(
            *words, home=home, before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"], **variables
        )

    def _python(
        self, *words: str, home: Path, before: list[str] | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        home.mkdir(exist_ok=True)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
        environment = kept | {"PYTHONPATH": str(self.folder), "HOME": str(home)} | variables
        command = [*(before or []), sys.executable, *words]
        return subprocess.run(
            command,
            env=environment,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("an installation that belongs to somebody else takes root, and Debian's util-linux")
    with tempfile.TemporaryDirectory(prefix="chimbuko-installation-") as folder:
        yield Installation(Path(folder))


def files_of(cache: Path) -> tuple[list[Path], list[Path]]:
    """Links to compiled kernels in a cache, and compiled kernels of its own."""
    found = list(cache.rglob("*.nb?"))
    return [path for path in found if path.is_symlink()], [path for path in found if not path.is_symlink()]


def test_users_compile_nothing(installation: Installation, tmp_path: Path) -> None:
    compiled = installation.compiled
    traced = [sys.executable, "-m", "chimbuko", "trace", "program.py"]
    (tmp_path / "program.py").write_text("def work():\n    pass\nfor _ in range(500):\n    work()\n")
    words = ["-m", "chimbuko", "run", "--no-dashboard", "--json", "-o", "run", "--", *traced]
    done = installation.as_user(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"] == 502 and COMPILING not in done.stderr
    links, own = files_of(tmp_path / ".cache" / "numba")
    # Tests may have compiled others beside those that are noted.
    assert own == [] and {str(path.readlink()) for path in links} <= set(compiled) and len(links) > 80
    assert installation.compiled == compiled


def test_a_home_that_cannot_be_written_is_no_hindrance(installation: Installation, tmp_path: Path) -> None:
    done = installation.as_user(tmp_path, "-c", USE, XDG_CACHE_HOME="/proc/nowhere", TMPDIR=str(tmp_path))
    assert done.stdout.split() == [str(tmp_path / f"chimbuko-kernels-{os.getuid()}"), "True"]
    given = tmp_path / "given"
    done = installation.as_user(tmp_path, "-c", USE, NUMBA_CACHE_DIR=str(given))
    assert done.stdout.split() == [str(given), "True"]


def test_kernels_for_another_cpu_are_left_alone(installation: Installation, tmp_path: Path) -> None:
    """Of which another setting of the compiler is one."""
    done = installation.as_user(tmp_path, "-c", USE, NUMBA_CPU_NAME="other")
    assert done.stdout.split()[1] == "False", done.stderr
    assert files_of(tmp_path / ".cache") == ([], [])
    done = installation.as_user(tmp_path, "-c", USE, NUMBA_NUM_THREADS="1")
    assert done.stdout.split()[1] == "True"


def test_kernels_that_cannot_be_read_or_are_gone_are_compiled(
    installation: Installation, tmp_path: Path
) -> None:
    one = next(iter((installation.package / "ad" / "kernels").rglob("*.nbc")))
    one.chmod(0)
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "False"
    one.chmod(0o644)
    one.rename(one.with_suffix(".gone"))
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "False"
    one.with_suffix(".gone").rename(one)
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "True"


def test_all_kernels_are_compiled_with_it(installation: Installation, tmp_path: Path) -> None:
    done = installation.as_user(tmp_path, "-c", DECLARED)
    assert done.returncode == 0, done.stderr
    declared = [line.split() for line in done.stdout.splitlines()]
    assert len(declared) > 40 and [words for words in declared if len(words) != 2] == []
    assert files_of(tmp_path / ".cache")[1] == []


@pytest.mark.thorough
def test_users_with_another_cpu_compile_once_for_themselves(
    installation: Installation, tmp_path: Path
) -> None:
    compiled = installation.compiled
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "True"
    other = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2"}
    words = ["-m", "chimbuko", "run", "--no-dashboard", "--", "true"]
    for variables, is_compiling in ((other, True), (other, False), ({}, False)):
        done = installation.as_user(tmp_path, *words, **variables)
        assert done.returncode == 0 and (COMPILING in done.stderr) == is_compiling, done.stderr
    assert installation.compiled == compiled
