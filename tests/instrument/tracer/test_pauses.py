"""Pauses that Python makes in a call: collections of garbage, and imports."""

from __future__ import annotations

import gc
import importlib
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.instrument.hooks.pauses import Pauses

SLOW = "import time\ntime.sleep(0.002)\n"


class Counted:
    """Recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def count(self, name: str, value: float) -> None:
        self.values[name] = value


@pytest.fixture
def counted() -> Iterator[Counted]:
    counted = Counted()
    pauses = Pauses(counted)
    pauses.install()
    yield counted
    pauses.remove()


def test_a_long_collection_has_its_generation_and_its_length(counted: Counted) -> None:
    kept = [[[]] for _ in range(200_000)]  # type: ignore[var-annotated]
    gc.collect()
    assert counted.values["Garbage collection: generation 2"] >= 1_000
    counted.values.clear()
    gc.collect(0)
    assert kept and not counted.values, "a short one"


def test_an_import_is_that_of_the_first_module(
    counted: Counted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "chimbuko_outer.py").write_text(f"import chimbuko_inner\n{SLOW}")
    (tmp_path / "chimbuko_inner.py").write_text(SLOW)
    (tmp_path / "chimbuko_broken.py").write_text("import chimbuko_missing\n")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("chimbuko_outer")
    assert counted.values["Import: chimbuko_outer"] >= 4_000
    assert "Import: chimbuko_inner" not in counted.values
    importlib.import_module("chimbuko_outer")
    with pytest.raises(ModuleNotFoundError) as raised:
        importlib.import_module("chimbuko_broken")
    files = {Path(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)}
    assert "pauses.py" not in files


def test_nothing_of_it_is_left() -> None:
    before = importlib._bootstrap._find_and_load, list(gc.callbacks)  # type: ignore[attr-defined]
    pauses = Pauses(Counted())
    pauses.install()
    pauses.remove()
    assert (importlib._bootstrap._find_and_load, gc.callbacks) == before  # type: ignore[attr-defined]
