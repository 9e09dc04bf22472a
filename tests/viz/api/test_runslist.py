"""The list of a folder's runs."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from chimbuko.causes.wording import BOUNDS, Bound
from chimbuko.core.calls.record import StepCount
from chimbuko.core.config import AnalysisConfig
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.store.tables import FIRST_RELEASE, INCIDENTS
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.runs.directory import new_run
from chimbuko.viz.api.runslist import RunsList
from tests.sample_records import make_batch

TEXTS = ("kind", "call", "sentence")


@pytest.mark.parametrize(
    ("command", "program"),
    [
        (["mpirun", "-n", "4", "./heat2d"], "heat2d"),
        (["--trace", "traces/*.bp"], "solve, render"),
        (["chimbuko", "serve", "runs/heat"], "solve, render"),
        ([], "solve, render"),
    ],
)
def test_a_run_is_listed_with_its_programs(tmp_path: Path, command: list[str], program: str) -> None:
    run = new_run(tmp_path / "run", command, AnalysisConfig(), None)
    run.programs_path.write_bytes(msgspec.json.encode({"solve": 0, "render": 1}))
    (listed,) = RunsList(tmp_path).answer().runs
    assert listed.program == program


@pytest.mark.parametrize(("transport", "duration_us"), [("recorded", 36_000_000), ("files", 5_500_000)])
def test_a_recorded_trace_took_as_long_as_its_program(
    tmp_path: Path, transport: str, duration_us: int
) -> None:
    run = new_run(tmp_path / "run", ["--trace", "*.bp"], AnalysisConfig(), None)
    info = run.read_info()
    info = msgspec.structs.replace(
        info, transport=transport, state="finished", ended_us=info.started_us + 5_500_000
    )
    run.write_info(info)
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, info.id)
    writer.write_run(info)
    writer.write([make_batch(steps=[StepCount(0, 1, 0, 1_000_000, 37_000_000, 9, 0, 0.0)])])
    close(engine)
    (listed,) = RunsList(tmp_path).answer().runs
    assert listed.duration_us == duration_us


@pytest.mark.parametrize("is_old", [False, True], ids=["now", "first release"])
def test_a_lost_time_is_as_sure_as_its_least_sure_part(tmp_path: Path, is_old: bool) -> None:
    run = new_run(tmp_path / "run", ["./heat"], AnalysisConfig(), None)
    engine = open_for_writing(run.store_url)
    writer = Writer(engine, run.read_info().id)
    writer.write_run(run.read_info())
    writer.write([make_batch()])
    columns = {
        column.name: b"" if column.name == "details" else "" if column.name in TEXTS else 0
        for column in INCIDENTS.columns
    }
    rows = [
        columns | {"run": 1, "number": number, "is_gone": False, "cost_us": 1e6, "bound": BOUNDS.index(bound)}
        for number, bound in ((1, Bound.ESTIMATED), (2, Bound.EXACT))
    ]
    with engine.begin() as connection:
        connection.execute(INCIDENTS.insert(), rows)
        if is_old:
            connection.exec_driver_sql("ALTER TABLE incidents DROP COLUMN bound")
            connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{FIRST_RELEASE}'")
    close(engine)
    (listed,) = RunsList(tmp_path).answer().runs
    assert (listed.lost_us, listed.bound) == (2e6, Bound.EXACT if is_old else Bound.ESTIMATED)
