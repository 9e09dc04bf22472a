"""What DataFrames give of a run, and that the examples of the documents work."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import chimbuko
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.record import CallRecord, CounterStatistics
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.schema import BUCKETED_PROFILE
from chimbuko.provenance.compare.runcomparison import compare
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.explain.explaining import explain
from chimbuko.provenance.export.frames import Run, open_frames
from chimbuko.provenance.query.aggregates import By
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.store.engine import close, open_for_writing
from chimbuko.provenance.write.writer import Writer
from chimbuko.runtime.protocol.messages import (
    FunctionModel,
    FunctionStatistics,
    PathStatistics,
    RunStatistics,
)
from tests.causes.stories import chain, interruptions
from tests.places import ROOT
from tests.provenance.exported import DEPARTURE, DRIFT
from tests.sample_records import RUN_ID, make_batch, make_batches, make_record, make_run
from tests.viz.made_run import FUNCTIONS, ZERO_US, MadeRun
from tests.viz.made_run import make_run as make_whole_run

DOCS = ROOT / "docs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> MadeRun:
    """A run that has ended, with known findings."""
    return make_whole_run(tmp_path_factory.mktemp("frames") / "heat")


@pytest.fixture(scope="module")
def run(made: MadeRun) -> Iterator[Run]:
    with open_frames(made.directory.path) as run:
        yield run


@pytest.fixture
def stored(any_store_url: str) -> Iterator[Callable[..., Run]]:
    """Stores records, on each kind of database in turn, and opens the store by its URL."""
    opened: list[Run] = []

    def store(*records: CallRecord) -> Run:
        engine = open_for_writing(any_store_url)
        writer = Writer(engine, RUN_ID)
        writer.write_run(make_run())
        writer.write(make_batches(records))
        close(engine)
        opened.append(open_frames(any_store_url, RUN_ID))
        return opened[0]

    yield store
    for run in opened:
        run.close()


def time_of(time_us: int) -> pd.Timestamp:
    return pd.Timestamp(time_us, unit="us", tz="UTC")


def test_calls_are_the_records(run: Run, made: MadeRun) -> None:
    calls = run.calls()
    assert len(calls) == len(made.records)
    for record in made.records[::20]:
        call = calls.loc[record.id]
        assert call["entry_time"] == time_of(record.entry_us)
        assert call["exit_time"] == time_of(record.exit_us)
        assert call["entry_s"] == pytest.approx((record.entry_us - ZERO_US) / 1e6)
        assert call["label"] == record.label
        for name in set(CallRecord.__struct_fields__) & set(calls.columns) - {"label"}:
            assert call[name] == getattr(record, name), name


def test_columns_are_typed(run: Run) -> None:
    for calls in (run.calls(), run.calls(rank=99)):
        assert calls.index.name == "id"
        assert {str(calls[name].dtype) for name in ("label", "node", "function")} == {"category"}
        assert {str(calls[name].dtype) for name in ("entry_time", "exit_time")} == {"datetime64[us, UTC]"}
        assert calls["severity_us"].dtype == np.float64
        assert calls["is_gpu"].dtype == np.bool_


def test_anomalies_come_worst_first(run: Run, made: MadeRun) -> None:
    worst = sorted(made.anomalies, key=lambda record: -record.severity_us)
    assert list(run.anomalies()["severity_us"]) == [record.severity_us for record in worst]


@pytest.mark.parametrize(
    "filters",
    [
        {"label": "normal"},
        {"function": "relax*", "rank": 1},
        {"node": "node1", "through": "time_step*"},
        {"text": "JACOBI", "label": "anomaly"},
        {"step_min": 10, "step_max": 20, "min_severity_us": 5_000.0},
    ],
)
def test_filters_are_those_of_every_list(run: Run, filters: dict[str, object]) -> None:
    wanted = CallFilter(**{"label": None} | filters)  # type: ignore[arg-type]
    found = run.provenance.calls.page(wanted, limit=10_000).calls
    assert found
    assert set(run.calls(**filters).index) == {call.id for call in found}


def test_an_unknown_filter_is_reported(run: Run) -> None:
    with pytest.raises(ConfigError, match=r"^funktion: not a filter of calls; there are function, through"):
        run.calls(funktion="relax*")
    with pytest.raises(ConfigError, match=r"^sort 'length': not an order of calls"):
        run.calls(sort="length")  # type: ignore[arg-type]


def test_what_is_cut_off_is_reported(run: Run) -> None:
    with pytest.warns(UserWarning, match="the first 3 only"):
        assert len(run.anomalies(limit=3)) == 3
    with pytest.warns(UserWarning, match="the first 2 only"):
        assert run.messages(limit=2)["recorded_id"].nunique() == 2
    with pytest.warns(UserWarning, match="the first 1 only"):
        assert len(run.sql("SELECT rank FROM calls", limit=1)) == 1


def test_open_calls_have_no_end_yet(stored: Callable[..., Run]) -> None:
    run = stored(make_record(1, exit_us=0, inclusive_us=8_000), make_record(2))
    calls = run.calls()
    assert calls["exit_time"].isna().tolist() == [True, False]
    assert calls["exit_s"].isna().tolist() == [True, False]
    assert calls.loc["0:1:3:1", "inclusive_us"] == 8_000


def test_a_launch_is_named(stored: Callable[..., Run]) -> None:
    run = stored(make_record(1, is_gpu=True, launch_id="0:1:2:7"), make_record(2))
    assert run.calls()["launch_id"].tolist() == ["0:1:2:7", ""]


def test_the_incident_is_named(stored: Callable[..., Run], any_store_url: str) -> None:
    run = stored(make_record(1), make_record(2))
    assert run.calls()["incident_id"].tolist() == ["", ""]
    engine = open_for_writing(any_store_url)
    explain(engine, RUN_ID)
    close(engine)
    named = run.anomalies()["incident_id"]
    assert set(named) <= {"I1", "I2"}
    assert len(run.calls(incident=named.iloc[0])) == (named == named.iloc[0]).sum() > 0


def test_incidents_and_what_recurs(stored: Callable[..., Run], any_store_url: str) -> None:
    empty = stored()
    assert [len(frame) for frame in (empty.incidents(), empty.recurring())] == [0, 0]
    run = stored(*chain(), *interruptions())
    engine = open_for_writing(any_store_url)
    explain(engine, RUN_ID)
    close(engine)
    incidents = run.incidents()
    assert len(incidents) == 41
    worst = incidents.iloc[0]
    assert (worst["rank"], worst["function"], worst["kind"], worst["ranks"]) == (3, "compute", "own code", 4)
    assert (worst["end_time"] - worst["begin_time"]).total_seconds() == pytest.approx(0.108)
    with pytest.warns(UserWarning, match="the first 2 only"):
        assert len(run.incidents(limit=2)) == 2
    waits = run.waits(incidents.index[0])
    assert sorted(waits["rank"]) == [0, 1, 2]
    assert waits["lost_us"].is_monotonic_decreasing and waits["is_flagged"].all()
    (recurring,) = run.recurring().itertuples()
    assert (recurring.Index, recurring.kind, recurring.calls) == ("R1", "interruptions", 40)
    with pytest.raises(ConfigError, match="not in this run"):
        run.waits("I99")
    assert run.metric_findings().empty
    engine = open_for_writing(any_store_url)
    Writer(engine, RUN_ID).write_metric_findings([DRIFT, DEPARTURE])
    close(engine)
    found = run.metric_findings()
    assert list(found.index) == ["M1", "M2"] and list(found["kind"]) == ["global drift", "departure"]
    assert found.loc["M2", "ranks"] == (1, 2) and found.loc["M1", "sentence"] == DRIFT.sentence
    assert (found["found_time"] - found["begin_time"]).dt.total_seconds().tolist() == [0.5, 0.4]


def test_functions_of_the_same_name_are_one_category(stored: Callable[..., Run]) -> None:
    run = stored(make_record(1, function="main"), make_record(2, program=1, function="main"))
    calls = run.calls()
    assert list(calls["function"].cat.categories) == ["main"]
    assert calls["program"].tolist() == [0, 1]


def test_nothing_stored_is_no_error(stored: Callable[..., Run]) -> None:
    run = stored()
    for frame in (run.calls(), run.messages(), run.counters(), run.steps(), run.functions(), run.ranks()):
        assert frame.empty
    assert len(run.counter_statistics()) == len(run.metadata()) == len(run.health()) == 0
    assert "<table>" in run._repr_html_()


def test_the_window_of_a_call(run: Run, made: MadeRun) -> None:
    record = made.anomalies[0]
    window = run.window(record.id)
    assert list(window.index) == [call.id for call in record.window]
    assert window.index[window["is_recorded"]].tolist() == [record.id]
    assert window.loc[record.id, "offset_us"] == 0
    first = record.window[0]
    assert window["offset_us"].iloc[0] == first.entry_us - record.entry_us
    assert window["inclusive_us"].iloc[0] == first.exit_us - first.entry_us
    assert run.call(record.id) == record
    with pytest.raises(ConfigError, match="not recorded"):
        run.window("0:0:0:999")


def test_messages_and_counters_of_windows(run: Run, made: MadeRun) -> None:
    messages = run.messages(rank=1)
    of_rank = [record for record in made.anomalies if record.rank == 1]
    assert len(messages) == sum(len(record.messages) for record in of_rank)
    assert messages["is_first"].sum() == len({message for record in of_rank for message in record.messages})
    record = of_rank[0]
    assert run.messages(record.id)["time"].tolist() == [time_of(m.time_us) for m in record.messages]
    counters = run.counters(record.id)
    assert counters["value"].tolist() == [c.value for c in (*record.counters, *record.node_state)]
    assert str(counters["counter"].dtype) == "category"


def test_steps_ranks_and_functions(run: Run, made: MadeRun) -> None:
    steps = run.steps()
    assert len(steps) == len(made.steps)
    assert steps["anomalies"].sum() == len(made.anomalies)
    assert len(run.steps(ranks=[(0, 2)], step_min=30, step_max=39)) == 10
    ranks = run.ranks().set_index("rank")
    expected = {statistics.rank: statistics for statistics in made.rank_statistics()}
    assert ranks["anomalies"].to_dict() == {rank: one.total for rank, one in expected.items()}
    assert ranks["severity_us"].is_monotonic_decreasing
    assert ranks.loc[4, "node"] == "node2"
    functions = run.functions()
    assert set(functions["function"]) == set(FUNCTIONS)
    assert functions["severity_us"].is_monotonic_decreasing


@pytest.mark.parametrize("by", ["function", "rank", "node"])
def test_totals_are_sums_over_abnormal_calls(run: Run, made: MadeRun, by: By) -> None:
    totals = run.totals(by, min_severity_us=2_000.0)
    anomalies = run.anomalies(min_severity_us=2_000.0)
    summed = anomalies.groupby(by, observed=True)["severity_us"].sum()
    assert totals.set_index(by)["severity_us"].to_dict() == pytest.approx(summed.to_dict())
    assert totals["anomalies"].sum() == len(anomalies)
    assert totals["first_time"].min() == anomalies["entry_time"].min()
    assert "start_time" not in totals


def test_totals_by_time_and_path(run: Run) -> None:
    over_time = run.totals("time")
    assert over_time["start_time"].is_monotonic_increasing
    assert over_time["anomalies"].sum() == len(run.anomalies())
    path = run.totals("path").iloc[0]
    assert len(run.anomalies(path=int(path["path"]))) == path["anomalies"]


def test_statistics_of_call_paths(stored: Callable[..., Run], any_store_url: str) -> None:
    run = stored(make_record(1))
    assert run.paths().empty
    engine = open_for_writing(any_store_url)
    statistics = [
        PathStatistics(0, ["main"], 1, 5.0, 0.0, 5.0, 5.0, 900.0, 0.0, 900.0, 900.0),
        PathStatistics(0, ["main", "step", "solve"], 10, 80.0, 1.0, 70.0, 90.0, 85.0, 1.0, 71.0, 95.0),
    ]
    Writer(engine, RUN_ID).write_statistics(RunStatistics(paths=statistics))
    close(engine)
    paths = run.paths()
    assert paths["function"].tolist() == ["solve", "main"]
    assert paths["callers"].tolist() == [("main", "step"), ()]
    assert paths["inclusive_maximum_us"].tolist() == [95.0, 900.0]


def made_with_paths(folder: Path, steps: int, mean_us: float) -> Run:
    """A run with statistics of two call paths."""
    directory = make_whole_run(folder, stored_steps=steps).directory
    engine = open_for_writing(directory.store_url)
    spent = (mean_us, 1.0, 70.0, 900.0) * 2
    paths = [PathStatistics(0, ["main", name], 100, *spent) for name in FUNCTIONS[:2]]
    Writer(engine, directory.read_info().id).write_statistics(RunStatistics(paths=paths))
    close(engine)
    return open_frames(directory.path)


def test_two_runs_are_compared_as_everywhere(tmp_path: Path) -> None:
    with (
        made_with_paths(tmp_path / "before", 60, 80.0) as before,
        made_with_paths(tmp_path / "after", 40, 90.0) as after,
    ):
        found = compare(read_profile(before.provenance), read_profile(after.provenance))
        functions, paths = before.compare(after), before.compare(after, "path")
    assert functions["function"].tolist() == [shift.name for shift in found.functions]
    assert functions["calls_after"].tolist() == [shift.calls[1] for shift in found.functions]
    assert functions["verdict"].tolist() == [shift.decisive.verdict for shift in found.functions]
    assert paths["callers"].tolist() == [("main",), ("main",)]
    assert paths["mean_after_us"].tolist() == [90.0, 90.0]


def test_functions_of_one_run_alone_are_reported(tmp_path: Path, run: Run) -> None:
    new = FunctionStatistics(0, "fresh", 7, 0, 0.0, *[5.0] * 6)
    directory = make_whole_run(tmp_path / "after").directory
    engine = open_for_writing(directory.store_url)
    Writer(engine, directory.read_info().id).write_statistics(RunStatistics(functions=[new]))
    close(engine)
    with open_frames(directory.path) as after:
        [change] = run.compare(after).query("verdict == 'new'").to_dict("records")
        [gone] = after.compare(run).query("verdict == 'vanished'").to_dict("records")
    assert (change["function"], change["calls_before"], change["calls_after"]) == ("fresh", 0, 7)
    assert (gone["function"], gone["calls_before"], gone["calls_after"]) == ("fresh", 7, 0)


def test_health_metadata_and_counter_statistics(stored: Callable[..., Run], any_store_url: str) -> None:
    run = stored(make_record(1))
    engine = open_for_writing(any_store_url)
    statistics = CounterStatistics("bytes", 4.0, 5.0, 16.0, 0.0, 0.0, 3.0, 7.0)
    batch = make_batch(2, counter_statistics=[statistics], dropped={"main": 3})
    Writer(engine, RUN_ID).write([batch])
    close(engine)
    assert run.health()["node"].tolist() == ["node7"]
    [counter] = run.counter_statistics().to_dict("records")
    assert counter == {
        "program": 0,
        "rank": 1,
        "counter": "bytes",
        "values": 4,
        "mean": 5.0,
        "stddev": 2.0,
        "minimum": 3.0,
        "maximum": 7.0,
    }


def test_the_distribution_of_a_function(stored: Callable[..., Run], any_store_url: str) -> None:
    run = stored(make_record(1, function="f"))
    table = BUCKETED_PROFILE.empty(1)
    counts = table[:, BUCKETED_PROFILE.slices["buckets"]]
    counts[:] = 0.0
    counts[0, [40, 42]] = 5.0, 2.0
    engine = open_for_writing(any_store_url)
    Writer(engine, RUN_ID).write_statistics(RunStatistics(models=[FunctionModel(1, 0, "f", table.tobytes())]))
    close(engine)
    distribution = run.distribution("f")
    assert distribution["calls"].tolist() == [5.0, 0.0, 2.0]
    assert distribution["from_us"].tolist() == EDGES_US[40:43].tolist()
    assert distribution["to_us"].tolist() == EDGES_US[41:44].tolist()
    with pytest.raises(ConfigError, match="function 'g': 0 of that name"):
        run.distribution("g")


def test_sql(run: Run, made: MadeRun) -> None:
    asked = run.sql(
        "SELECT rank, count(*) AS found FROM calls WHERE run = :run AND is_anomaly AND rank > :least "
        "GROUP BY rank ORDER BY rank",
        {"least": 0},
    )
    expected = {rank: sum(r.rank == rank for r in made.anomalies) for rank in range(1, 5)}
    assert asked.set_index("rank")["found"].to_dict() == {rank: n for rank, n in expected.items() if n}
    with pytest.raises(ConfigError, match="not allowed"):
        run.sql("DELETE FROM calls")


def test_what_a_notebook_shows_of_a_run(run: Run, made: MadeRun) -> None:
    shown = run._repr_html_()
    assert f"heat ({run.info.id}), finished" in shown
    assert f"<td>{len(made.anomalies)}</td>" in shown


def test_names_in_what_is_shown_are_escaped(store_url: str) -> None:
    engine = open_for_writing(store_url)
    Writer(engine, RUN_ID).write_run(make_run(command=["./<script>"]))
    close(engine)
    with open_frames(store_url) as run:
        assert "./&lt;script&gt;" in run._repr_html_()


def test_runs_are_found_by_folder_name_or_default(made: MadeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made.directory.path
    for run in (folder, str(folder)):
        with chimbuko.open(run) as opened:
            assert opened.info.id == made.directory.read_info().id
    chimbuko_runs = folder.parent / "here" / "chimbuko-runs"
    chimbuko_runs.mkdir(parents=True)
    (chimbuko_runs / "heat").symlink_to(folder)
    monkeypatch.chdir(chimbuko_runs.parent)
    for name in ("heat", None):
        with chimbuko.open(name) as opened:
            assert opened.info.name == "heat"
    with pytest.raises(ConfigError, match="cold"):
        chimbuko.open("cold")
    with pytest.raises(ConfigError, match="goes with the URL"):
        chimbuko.open(folder, run_id="x")


def test_importing_chimbuko_loads_nothing_of_it() -> None:
    code = "import sys, chimbuko; print(*(name for name in sys.modules if name.startswith('chimbuko.')))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout == "\n"
    with pytest.raises(AttributeError, match="no attribute 'close'"):
        chimbuko.close  # type: ignore[attr-defined]  # noqa: B018


def test_without_pandas_it_says_what_to_install() -> None:
    code = "import sys; sys.modules['pandas'] = None\nimport chimbuko\nchimbuko.open"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "chimbuko.open needs pandas; install it with: pip install 'chimbuko[notebook]'" in failed.stderr


@pytest.mark.filterwarnings("ignore:the first")
def test_the_examples_of_the_document_work(
    made: MadeRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "chimbuko-runs").mkdir()
    (tmp_path / "chimbuko-runs" / "heat").symlink_to(made.directory.path)
    monkeypatch.chdir(tmp_path)
    for document in ("notebooks", "querying"):
        blocks = re.findall(
            r"```python\n(.*?)```", (DOCS / "howto" / f"{document}.md").read_text(), re.DOTALL
        )
        assert blocks
        exec("\n".join(blocks), {})
    [statement] = re.findall(r"```sql\n(.*?)```", (DOCS / "howto" / "querying.md").read_text(), re.DOTALL)
    with chimbuko.open() as run:
        assert run.sql(statement)["anomalies"].sum() > 0
