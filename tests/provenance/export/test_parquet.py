"""Tables of Parquet, read by another reader, hold what was recorded."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pandas as pd
import pytest
from fastparquet import ParquetFile

from chimbuko.core.calls.record import CallRecord
from chimbuko.provenance.export.parquet import TABLES
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.query.filters import CallFilter
from tests.provenance.exported import (
    DEPARTURE,
    LAUNCH_ID,
    ExportedRun,
    path_statistics,
    some_incidents,
    statistics,
)


@pytest.fixture
def folder(exported_run: ExportedRun) -> Path:
    exported_run.export("parquet")
    return exported_run.folder / "out"


def read(folder: Path, table: str) -> pd.DataFrame:
    with (folder / f"{table}.parquet").open("rb") as file:
        return ParquetFile(file).to_pandas()


def test_there_is_a_file_of_each_table_with_its_columns(folder: Path) -> None:
    assert {path.stem for path in folder.iterdir()} == TABLES.keys()
    kinds = {int: "int64", float: "float64", bool: "bool"}
    for table, columns in TABLES.items():
        found = read(folder, table)
        assert list(found.columns) == list(columns)
        for name, kind in columns.items():
            if kind in kinds and len(found):
                assert found[name].dtype == kinds[kind], name


def test_calls_have_all_their_fields(folder: Path, exported_run: ExportedRun) -> None:
    found = read(folder, "calls").set_index("id", drop=False)
    assert len(found) == len(exported_run.records)
    for record in exported_run.records:
        row = found.loc[record.id]
        for name in TABLES["calls"]:
            assert row[name] == getattr(record, name), name


def test_what_windows_repeat_is_marked(folder: Path, exported_run: ExportedRun) -> None:
    found = read(folder, "window_calls")
    assert len(found) == sum(len(record.window) for record in exported_run.records)
    once = found[found.is_first]
    assert sorted(once.id) == sorted({call.id for record in exported_run.records for call in record.window})
    first = exported_run.records[0]
    own = found[found.recorded_id == first.id].sort_values("position")
    assert list(own.entry_us) == [call.entry_us for call in first.window]
    assert list(own.parent_id) == [call.parent_id for call in first.window]


def test_stacks_are_those_of_calls_and_of_launches(folder: Path, exported_run: ExportedRun) -> None:
    found = read(folder, "call_stacks")
    for record in exported_run.records:
        own = found[(found.recorded_id == record.id) & ~found.is_launch].sort_values("position")
        assert list(own.function) == [frame.function for frame in record.call_stack]
    assert list(found[found.is_launch].id) == [LAUNCH_ID, "0:1:0:0"]


def test_messages_and_counters_belong_to_records(folder: Path, exported_run: ExportedRun) -> None:
    def reported(record: CallRecord) -> list[tuple[object, ...]]:
        return [msgspec.structs.astuple(message) for message in record.messages]

    found = read(folder, "messages").drop(columns=["is_first"])
    assert [tuple(row) for row in found.itertuples(index=False)] == [
        (record.id, *message) for record in exported_run.records for message in reported(record)
    ]
    counters = read(folder, "counters")
    for source, part in (("window", "counters"), ("metric", "metrics"), ("node", "node_state")):
        assert sum(counters.source == source) == sum(
            len(getattr(record, part)) for record in exported_run.records
        )


def test_statistics_are_of_the_whole_run(exported_run: ExportedRun) -> None:
    exported_run.export("parquet", wanted=CallFilter(rank=2))
    folder = exported_run.folder / "out"
    assert set(read(folder, "calls")["rank"]) == {2}
    assert set(read(folder, "step_counts")["rank"]) == {0, 1, 2}
    (row,) = read(folder, "function_statistics").itertuples(index=False)
    assert tuple(row) == msgspec.structs.astuple(statistics()[0])
    paths = [tuple(row) for row in read(folder, "path_statistics").itertuples(index=False)]
    assert sorted((program, list(functions), *numbers) for program, functions, *numbers in paths) == [
        msgspec.structs.astuple(path) for path in path_statistics()
    ]


def test_incidents_are_those_of_the_calls(exported_run: ExportedRun) -> None:
    exported_run.export("parquet", wanted=CallFilter(program=0, label=None))
    folder = exported_run.folder / "out"
    (incident,) = read(folder, "incidents").itertuples(index=False)
    found = Incidents(exported_run.provenance.reader)
    assert tuple(incident) == msgspec.structs.astuple(found.one("I1").summary)
    waits = [tuple(row) for row in read(folder, "incident_waits").itertuples(index=False)]
    assert waits == [("I1", *msgspec.structs.astuple(one)) for one in some_incidents()[0].waited]
    (recurring,) = read(folder, "recurring").itertuples(index=False)
    assert (recurring.id, recurring.kind, list(recurring.ranks), recurring.cost_us) == (
        "R1",
        "slow mode",
        [1, 2],
        5e6,
    )
    wrong = list(read(folder, "metric_findings").itertuples(index=False))
    assert [(one.id, one.kind, one.quantity, one.found_us) for one in wrong] == [
        ("M1", "global drift", "mass", 1_500_000),
        ("M2", "departure", "density/min", 1_600_000),
    ]
    assert list(wrong[1].ranks) == [1, 2] and wrong[1].sentence == DEPARTURE.sentence
