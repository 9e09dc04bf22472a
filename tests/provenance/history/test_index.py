"""The index of a memory over runs, in SQLite and in PostgreSQL."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from chimbuko.core.errors import ConfigError, StoreError
from chimbuko.provenance.history.entry import Version
from chimbuko.provenance.history.index import Access, Index, open_index
from tests.provenance.history.made import entry


@pytest.fixture(params=["sqlite", "postgresql"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    """An empty index on each kind of database in turn."""
    is_file = request.param == "sqlite"
    place = str(tmp_path / "history.sqlite") if is_file else request.getfixturevalue("postgresql_schema")
    with open_index(place, Access.MAKE) as made:
        yield made


def test_what_is_written_is_read(index: Index) -> None:
    one = entry(1, version=Version(commit="abc"), model=b"model")
    for written in (entry(2, key="k2", start_key="s2"), one, one):
        index.write(written)
    assert [(row.name, row.runs) for row in index.series()] == [("heat2d", 1), ("heat2d-2", 1)]
    (row,) = index.runs("heat2d-2", 10)
    assert (row.id, row.quantities, row.version, row.is_good) == (one.id, one.quantities, one.version, True)
    assert index.details([one.id, "none"]) == {one.id: one.details}
    assert index.models([one.id]) == {one.id: b"model"}
    assert index.newest_series("s1") == index.series_of("run-1") == "heat2d-2"
    assert (index.newest_series(), index.newest_series("s3"), index.series_of("none")) == (
        "heat2d",
        None,
        None,
    )
    assert index.title("heat2d") == one.title


def test_series_are_corrected_by_hand_and_stay_so(index: Index) -> None:
    for number, key in enumerate(["k1", "k1", "k2"]):
        index.write(entry(number, key=key))
    index.rename("heat2d-2", "large")
    index.move("run-1", "large")
    index.leave_out("run-2", is_left_out=True)
    index.write(entry(1, key="k1"))
    assert [(row.id[-1], row.is_good) for row in index.runs("large", 10)] == [("1", True), ("2", False)]
    index.leave_out("run-2", is_left_out=False)
    index.rename("large", "heat2d")
    assert [row.id[-1] for row in index.runs("heat2d", 10)] == ["0", "1", "2"]
    assert [row.id[-1] for row in index.runs("heat2d", 2)] == ["1", "2"]
    with pytest.raises(ConfigError, match="there are heat2d"):
        index.rename("none", "other")
    with pytest.raises(ConfigError, match="0 runs"):
        index.move("none", "other")


def test_old_entries_are_forgotten(index: Index) -> None:
    for number in range(6):
        index.write(entry(number, key="k1" if number else "k2"))
    assert index.forget(before_us=entry(1).started_us, keep=None) == 1
    assert index.forget(before_us=None, keep=2) == 3
    assert [(row.name, row.runs) for row in index.series()] == [("heat2d-2", 2)]


def test_the_group_may_read_and_write_where_it_may_write_to_the_folder(tmp_path: Path) -> None:
    for mode, expected in ((0o755, 0o640), (0o775, 0o660)):
        folder = tmp_path / oct(mode)
        folder.mkdir()
        folder.chmod(mode)
        place = folder / "history.sqlite"
        open_index(str(place), Access.MAKE).__exit__()
        assert stat.S_IMODE(place.stat().st_mode) == expected


def test_what_is_no_index_is_said_in_one_line(tmp_path: Path) -> None:
    place = tmp_path / "history.sqlite"
    for access in (Access.READ, Access.CHANGE):
        with pytest.raises(StoreError, match="no index of runs yet"):
            open_index(str(place), access)
    assert not place.exists()
    with pytest.raises(StoreError, match=r"cannot be opened \(No such file or directory\)"):
        open_index(str(tmp_path / "nowhere" / "history.sqlite"), Access.MAKE)
    place.write_bytes(b"no database, but long enough to be none" * 100)
    with pytest.raises(StoreError, match=r"cannot be used \(file is not a database\); remove it"):
        open_index(str(place), Access.MAKE)
