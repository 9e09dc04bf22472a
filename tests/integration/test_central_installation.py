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

pytestmark = pytest.mark.cold

OWNER = 54321
"""Nobody has this number."""
COMPILING = "compiling kernels"
USE = """
from chimbuko.core.kernels import library
print(library.place(), library.find())
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
        """The library of kernels, and when it was written."""
        return {str(path): path.stat().st_mtime_ns for path in self.package.rglob("kernels_*.so")}

    def as_user(self, home: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run Python as a user who can only read the installation."""
        return self._python(
            *words, home=home, before=["setpriv", "--bounding-set=-all", "--inh-caps=-all"], **variables
        )

    def _python(
        self, *words: str, home: Path, before: list[str] | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        home.mkdir(exist_ok=True)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CHIMBUKO_KERNELS", "XDG_"))
        }
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


def test_users_compile_nothing(installation: Installation, tmp_path: Path) -> None:
    compiled = installation.compiled
    assert len(compiled) == 1
    traced = [sys.executable, "-m", "chimbuko", "trace", "program.py"]
    (tmp_path / "program.py").write_text("def work():\n    pass\nfor _ in range(500):\n    work()\n")
    words = ["-m", "chimbuko", "run", "--no-dashboard", "--json", "-o", "run", "--", *traced]
    done = installation.as_user(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["calls"] == 502 and COMPILING not in done.stderr
    assert installation.compiled == compiled
    # Small libraries of C are each user's own: they are built in half a second.
    kept = [path.name for path in (tmp_path / ".cache" / "chimbuko").rglob("*") if path.is_file()]
    assert [name for name in kept if not name.startswith("pythoncalls-")] == []


def test_a_user_who_has_to_compile_does_so_at_home_or_in_a_temporary_folder(
    installation: Installation, tmp_path: Path
) -> None:
    (library,) = installation.compiled
    done = installation.as_user(tmp_path, "-c", USE)
    assert done.stdout.split() == [str(tmp_path / ".cache" / "chimbuko"), library]
    done = installation.as_user(tmp_path, "-c", USE, XDG_CACHE_HOME="/proc/nowhere", TMPDIR=str(tmp_path))
    assert done.stdout.split()[0] == str(tmp_path / f"chimbuko-kernels-{os.getuid()}")
    done = installation.as_user(tmp_path, "-c", USE, CHIMBUKO_KERNELS=str(tmp_path / "given"))
    assert done.stdout.split() == [str(tmp_path / "given"), "None"]


def test_a_library_that_is_gone_or_of_other_sources_is_not_used(
    installation: Installation, tmp_path: Path
) -> None:
    (path,) = map(Path, installation.compiled)
    path.rename(path.with_suffix(".gone"))
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "None"
    path.with_suffix(".gone").rename(path)
    source = installation.package / "ad" / "kernels" / "stack.py"
    text = source.read_text()
    source.write_text(f"{text}\n# Changed.\n")
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == "None"
    source.write_text(text)
    assert installation.as_user(tmp_path, "-c", USE).stdout.split()[1] == str(path)
