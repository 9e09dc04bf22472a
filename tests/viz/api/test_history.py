"""The history of the run's series over HTTP."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chimbuko.provenance.history.index import Access, open_index
from chimbuko.provenance.query.run import open_run
from chimbuko.viz.api.endpoint import ServedRun
from chimbuko.viz.api.endpoints.comparison import history
from tests.provenance.history.made import year
from tests.viz.made_run import make_run


def test_a_run_has_the_history_of_its_series(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(tmp_path / "run-31").directory
    place = tmp_path / "history.sqlite"
    monkeypatch.setenv("CHIMBUKO_HISTORY", str(place))
    with open_run(run) as provenance:
        served = ServedRun(provenance, _Place(run))  # type: ignore[arg-type]
        assert "no index of runs yet" in history.handler(served).why
        entries = year(40)
        entries[31] = msgspec.structs.replace(entries[31], id=run.read_info().id)
        with open_index(str(place), Access.MAKE) as index:
            index._connection.execute("PRAGMA synchronous=OFF")
            for one in entries[:31]:
                index.write(one)
            assert "not in the index" in history.handler(served).why
            for one in entries[31:]:
                index.write(one)
        found = history.handler(served)
    assert found.history is not None
    assert (found.why, found.this, [one.at for one in found.history.changes]) == ("", 31, [30])
    assert [at for at, folder in enumerate(found.folders) if folder] == [31]


class _Place:
    """As much of a feed as says which run it is of."""

    def __init__(self, run: object) -> None:
        self.run = run
