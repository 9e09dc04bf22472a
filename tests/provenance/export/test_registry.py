"""Exports are the same each time, and what goes wrong is reported in a line and leaves nothing behind."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.export.registry import FORMATS
from chimbuko.provenance.query.filters import CallFilter
from tests.provenance.exported import ExportedRun

EVERY = pytest.mark.parametrize("form", FORMATS)


def content(path: Path) -> dict[str, bytes]:
    paths = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(each.relative_to(path)): each.read_bytes() for each in paths}


@EVERY
def test_an_export_is_the_same_each_time(exported_run: ExportedRun, form: str) -> None:
    written = [exported_run.export(form, name) for name in ("one", "two")]
    assert [(each.anomalies, each.normal_calls) for each in written] == [(6, 1)] * 2
    assert content(exported_run.folder / "one") == content(exported_run.folder / "two")


@EVERY
def test_a_filter_that_matches_nothing_makes_an_empty_export(exported_run: ExportedRun, form: str) -> None:
    exported = exported_run.export(form, wanted=CallFilter(rank=77))
    assert (exported.anomalies, exported.normal_calls) == (0, 0)
    assert (exported_run.folder / "out").exists()


@EVERY
def test_what_is_there_is_left_alone(exported_run: ExportedRun, form: str) -> None:
    exported_run.export(form)
    before = content(exported_run.folder / "out")
    with pytest.raises(ConfigError, match=r"exists already|holds files already"):
        exported_run.export(form)
    assert content(exported_run.folder / "out") == before
    (exported_run.folder / "file").write_text("mine")
    with pytest.raises(ConfigError, match="exists already"):
        exported_run.export(form, "file")
    with pytest.raises(ConfigError, match="cannot be written"):
        exported_run.export(form, "file/below")


@contextmanager
def file_limit(size_bytes: int) -> Iterator[None]:
    """No file may grow beyond this, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@EVERY
def test_a_full_disk_is_reported(exported_run: ExportedRun, form: str) -> None:
    with file_limit(1_000), pytest.raises(ConfigError, match=r"out: cannot be written \(.*[Ff]ile too large"):
        exported_run.export(form)
    assert not (exported_run.folder / "out").is_file()


@pytest.mark.parametrize(("form", "package"), [("perfetto", "perfetto"), ("parquet", "pyarrow")])
def test_a_missing_library_is_reported(form: str, package: str) -> None:
    script = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from chimbuko.core.errors import ConfigError\n"
        "from chimbuko.provenance.export.registry import FORMATS\n"
        "try:\n"
        f"    FORMATS[{form!r}].writer({form!r})\n"
        "except ConfigError as error:\n"
        "    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == (
        f"--format {form} needs the package {package}, which is not installed: "
        f"pip install 'chimbuko[{form}]'\n"
    )
