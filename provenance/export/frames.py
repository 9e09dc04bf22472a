"""A run as pandas DataFrames, for notebooks: what ``chimbuko.open`` gives.

Columns have the names and units of the records' fields. Times are UTC timestamps on the trace's clock, as
``entry_time``, and seconds since the run's first analysed step, as ``entry_s``. Functions, nodes and labels
are categories.
"""

from __future__ import annotations

import html
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sqlalchemy import Engine

from chimbuko.causes.incident import Waited
from chimbuko.causes.recurrence import Recurrence
from chimbuko.core.buckets import EDGES_US
from chimbuko.core.calls.record import (
    CallRecord,
    CounterStatistics,
    CounterValue,
    Message,
    Metadata,
    StepCount,
    StreamHealth,
    WindowCall,
)
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.schema import schema_of, stored_columns
from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.provenance.compare.runcomparison import compare
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.export.framecolumns import (
    calls_frame,
    described,
    details_frame,
    filter_of,
    frame_of,
    limited,
    nodes_by_rank,
    nodes_of,
    records,
    shifts_frame,
    totals_frame,
    with_times,
)
from chimbuko.provenance.incidents.budget import Budget
from chimbuko.provenance.incidents.incidentlist import Incidents, IncidentSummary
from chimbuko.provenance.incidents.metricfindings import metric_findings
from chimbuko.provenance.incidents.runbudget import run_budget
from chimbuko.provenance.query.aggregates import By
from chimbuko.provenance.query.filters import Sort, matching_functions
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import open_for_reading
from chimbuko.provenance.store.readonly import TIME_LIMIT_S, Value, answer_to, parameters_of
from chimbuko.runtime.protocol.messages import FunctionStatistics, PathStatistics, RankStatistics
from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.runtime.runs.finding import find_run

CALL_LIMIT = 1_000_000
"""Calls or rows that a DataFrame has at most unless another number is given: 170 MB."""
DETAIL_LIMIT = 10_000
"""Calls whose messages or counters are read at most unless another number is given: 0.1 ms each."""
MOST_SHOWN = 10
"""Incidents that a notebook shows with a run."""
_RANK_NAMES = {
    "total": "anomalies",
    "mean": "mean_per_step",
    "stddev": "stddev_per_step",
    "minimum": "minimum_per_step",
    "maximum": "maximum_per_step",
}
"""Names of columns in place of fields of ``RankStatistics`` that would say too little on their own."""


class Run:
    """The provenance of one run, as DataFrames; each is read from what is stored when it is asked for.

    Filters are the fields of ``provenance.query.filters.CallFilter``, such as ``function="MPI_*"`` or
    ``min_severity_us=5e3``.

    Raises
    ------
    ChimbukoError
        All methods raise one where the store cannot be read, or what is asked for makes no sense.
    """

    def __init__(self, engine: Engine, run_id: str | None = None) -> None:
        self._engine = engine
        self._provenance = Provenance(engine, run_id)
        self._zero_us: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store."""
        self._provenance.close()

    @property
    def info(self) -> RunInfo:
        """Description of the run: command, times, host, settings."""
        return self._provenance.run()

    @property
    def provenance(self) -> Provenance:
        """Provenance as objects, page by page, as the command line and the dashboard use it."""
        return self._provenance

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the run."""
        info = self.info
        streams = self._provenance.health()
        started = datetime.fromtimestamp(info.started_us / 1e6, UTC)
        figures = {
            "run": f"{info.name} ({info.id}), {info.state}",
            "command": " ".join(info.command),
            "started": f"{started:%Y-%m-%d %H:%M:%S} UTC on {info.host}",
            "ranks": f"{len(streams):,} on {len({stream.node for stream in streams}):,} nodes",
            "calls": f"{sum(stream.calls for stream in streams):,}",
            "anomalies": f"{sum(stream.anomalies for stream in streams):,}",
        }
        worst = Incidents(self._provenance.reader).page(MOST_SHOWN, 0, "cost_us", False)
        figures |= {one.id: one.sentence for one in worst.incidents}
        rows = (f"<tr><th>{name}</th><td>{html.escape(text)}</td></tr>" for name, text in figures.items())
        return f"<table>{''.join(rows)}</table>"

    def calls(
        self, *, sort: Sort = "entry_us", descending: bool = False, limit: int = CALL_LIMIT, **filters: Any
    ) -> pd.DataFrame:
        """Return recorded calls, abnormal and normal ones, by id; in order of time unless another is given.

        Parameters
        ----------
        limit
            Most rows; a warning says where there are more.
        """
        wanted = filter_of({"label": None} | filters)
        return self._timed(calls_frame(self._engine, self._provenance, wanted, sort, descending, limit))

    def anomalies(
        self, *, sort: Sort = "severity_us", descending: bool = True, limit: int = CALL_LIMIT, **filters: Any
    ) -> pd.DataFrame:
        """Return abnormal calls by id; worst first unless another order is given."""
        return self.calls(sort=sort, descending=descending, limit=limit, **({"label": "anomaly"} | filters))

    def call(self, call_id: str) -> CallRecord:
        """Return everything kept about one call."""
        return self._provenance.calls.record(call_id)

    def window(self, call_id: str) -> pd.DataFrame:
        """Return a recorded call with those before and after it on its thread, by id and in order of entry.

        ``is_recorded`` marks the recorded one; ``offset_us`` is the time from its entry to that of each.
        """
        record = self.call(call_id)
        frame = frame_of(WindowCall, record.window)
        frame.insert(3, "offset_us", frame["entry_us"] - record.entry_us)
        runtime_us = frame["exit_us"] - frame["entry_us"]
        frame.insert(4, "inclusive_us", runtime_us.where(frame["exit_us"] != 0))
        frame["is_recorded"] = frame["id"] == call_id
        return self._timed(frame.set_index("id").astype({"function": "category"}))

    def messages(
        self, call_id: str | None = None, *, limit: int = DETAIL_LIMIT, **filters: Any
    ) -> pd.DataFrame:
        """Return the messages in the windows of abnormal calls, or of one call.

        ``recorded_id`` is the call with the window, ``call_id`` the one that the message belongs to. Windows
        overlap: ``is_first`` is true in one row of each message.

        Parameters
        ----------
        limit
            Most recorded calls; a warning says where there are more.
        """
        found = records(self._provenance, call_id, filters, limit)
        return self._timed(
            details_frame(Message, ((record, message) for record in found for message in record.messages))
        )

    def counters(
        self, call_id: str | None = None, *, limit: int = DETAIL_LIMIT, **filters: Any
    ) -> pd.DataFrame:
        """Return counter values in the windows of abnormal calls, or of one call; columns as of ``messages``.

        Values of watched counters, which belong to the node, have an empty ``call_id``.
        """
        found = records(self._provenance, call_id, filters, limit)
        values = ((record, value) for record in found for value in (*record.counters, *record.node_state))
        return self._timed(details_frame(CounterValue, values))

    def counter_statistics(self) -> pd.DataFrame:
        """Return mean, spread, least and greatest value of each counter of each rank, over the whole run."""
        found = self._provenance.counter_statistics()
        frame = frame_of(CounterStatistics, [counter for _, _, counter in found])
        return pd.DataFrame(
            {
                "program": np.array([program for program, _, _ in found], np.int64),
                "rank": np.array([rank for _, rank, _ in found], np.int64),
                "counter": frame["name"].astype("category"),
                "values": frame["n"].astype("int64"),
                "mean": frame["mean"],
                "stddev": np.sqrt(frame["m2"] / frame["n"]),
                "minimum": frame["minimum"],
                "maximum": frame["maximum"],
            }
        )

    def steps(
        self,
        ranks: Sequence[tuple[int, int]] | None = None,
        step_min: int | None = None,
        step_max: int | None = None,
    ) -> pd.DataFrame:
        """Return what each analysed step counted, of all ranks or of those given as (program, rank)."""
        frame = frame_of(StepCount, self._provenance.steps.counts(ranks, step_min, step_max))
        frame.insert(2, "node", pd.Series(self._nodes(frame["program"].to_numpy(), frame["rank"].to_numpy())))
        return self._timed(frame)

    def budget(self) -> Budget:
        """Return where all the time of the run went, and what of it was lost."""
        return run_budget(self._provenance)

    def functions(self) -> pd.DataFrame:
        """Return statistics of each function over all calls and ranks of the run; most time lost first.

        ``calls`` is the number of all calls, ``spent_us`` their exclusive time, and ``slept_us`` how much of
        that their threads slept, NaN where that is not known. The other runtimes are those of calls that
        count for the detector: not the first ones, nor open ones; 0 if none does.
        """
        known = {(one.program, one.name): one for one in self._provenance.function_statistics()}
        times = self._provenance.function_times()
        known |= {
            key: FunctionStatistics(*key, times[key].calls, 0, 0, 0, 0, 0, 0, 0, 0)
            for key in times.keys() - known.keys()
        }
        frame = frame_of(FunctionStatistics, list(known.values()))
        frame["spent_us"] = [times[key].exclusive_us if key in times else 0.0 for key in known]
        slept = [times[key].slept_us if key in times else None for key in known]
        frame["slept_us"] = np.array(slept, np.float64)
        frame = frame.rename(columns={"name": "function"}).astype({"function": "category"})
        return frame.sort_values("severity_us", ascending=False, ignore_index=True)

    def ranks(self) -> pd.DataFrame:
        """Return anomalies per step of each rank; most time lost first."""
        frame = frame_of(RankStatistics, self._provenance.steps.rank_statistics()).rename(columns=_RANK_NAMES)
        frame.insert(2, "node", pd.Series(self._nodes(frame["program"].to_numpy(), frame["rank"].to_numpy())))
        return frame.sort_values("severity_us", ascending=False, ignore_index=True)

    def incidents(self, limit: int = CALL_LIMIT) -> pd.DataFrame:
        """Return each incident by its id with its cost on all ranks, in µs of core time; most costly first.

        ``rank`` is -1 where it is not known.
        """
        found = Incidents(self._provenance.reader).page(limit=limit + 1, with_short=True).incidents
        frame = frame_of(IncidentSummary, found)
        frame["rank"] = pd.array([-1 if one.rank is None else one.rank for one in found], dtype="int64")
        frame = frame.set_index("id").astype({"kind": "category", "function": "category"})
        return self._timed(limited(frame, limit))

    def waits(self, incident: str) -> pd.DataFrame:
        """Return the calls that an incident held up, by their ids; those that lost most first.

        Raises
        ------
        ConfigError
            The run has no such incident.
        """
        waited = Incidents(self._provenance.reader).one(incident).incident.waited
        frame = frame_of(Waited, waited).set_index("call_id").rename_axis(index="id")
        return self._timed(
            frame.astype({"kind": "str"}).astype({"kind": "category", "operation": "category"})
        )

    def recurring(self) -> pd.DataFrame:
        """Return recurring findings by their ids; most costly first.

        ``ranks``, ``functions``, ``callers`` and ``examples``, which are ids of calls, are lists.
        """
        found = Incidents(self._provenance.reader).recurrences()
        frame = frame_of(Recurrence, [one.recurrence for one in found])
        return self._timed(described(frame, found).astype({"function": "category"}))

    def metric_findings(self) -> pd.DataFrame:
        """Return findings in published quantities by their ids, in the order in which they were found.

        ``ranks`` are tuples, empty where the finding is of all ranks. ``since`` and ``step`` are steps of the
        program.
        """
        found = metric_findings(self._provenance.reader)
        frame = frame_of(Finding, [one.finding for one in found])
        return self._timed(described(frame, found).astype({"quantity": "category"}))

    def paths(self) -> pd.DataFrame:
        """Return the statistics of each call path over all its calls and ranks; most exclusive time first.

        ``callers`` are the functions around the ``function``, outermost first; ``slept_us`` as in
        ``functions``.
        """
        statistics = self._provenance.path_statistics()
        frame = frame_of(PathStatistics, statistics)
        functions = frame.pop("functions")
        frame.insert(1, "function", pd.Series([on_path[-1] for on_path in functions], dtype="category"))
        frame.insert(2, "callers", pd.Series([tuple(on_path[:-1]) for on_path in functions], dtype="object"))
        frame["begun"], frame["spent_us"] = (
            [getattr(path, name) for path in statistics] for name in ("all_calls", "total_us")
        )
        frame = frame.drop(columns=["looked_us", "asleep_us"])
        frame["slept_us"] = np.array([path.slept_us for path in statistics], np.float64)
        return frame.sort_values("spent_us", ascending=False, kind="stable", ignore_index=True)

    def totals(self, by: By, **filters: Any) -> pd.DataFrame:
        """Sum up abnormal calls by ``function``, ``rank``, ``node``, ``path``, ``step`` or ``time``.

        Most time lost first; steps and intervals of time in their order.
        """
        return self._timed(totals_frame(self._provenance.calls.totals(by, filter_of(filters))))

    def metadata(self, program: int | None = None, rank: int | None = None) -> pd.DataFrame:
        """Return the attributes of all ranks and threads, or of one program or rank."""
        return frame_of(Metadata, self._provenance.metadata(program, rank)).astype({"key": "category"})

    def health(self) -> pd.DataFrame:
        """Return what was read of each rank's stream, and what was lost."""
        return frame_of(StreamHealth, self._provenance.health()).astype(
            {"node": "category", "state": "category"}
        )

    def distribution(self, function: str, program: int | None = None) -> pd.DataFrame:
        """Return how many calls of a function took how long, over all ranks, shortest first.

        A bucket goes from ``from_us`` up to ``to_us``. The runtime is the one that the detector judges,
        ``info.config.metric``.

        Parameters
        ----------
        function
            Name, or a pattern with ``*`` and ``?`` that one function matches.
        program
            Program of the function, where several have one of that name; by default they are added up.
        """
        detector = self.info.config.detector
        if "buckets" not in schema_of(detector).slices:
            raise ConfigError(f"detector {detector}: keeps no distributions of runtimes")
        models = [m for m in self._provenance.models.newest() if program is None or m.program == program]
        names = matching_functions(function, {model.name for model in models})
        if len(names) != 1:
            raise ConfigError(f"function {function!r}: {len(names)} of that name; functions() lists them")
        chosen = [stored_columns(detector, model.row) for model in models if model.name in names]
        counts = sum(columns["buckets"] for columns in chosen)
        used = np.flatnonzero(counts)
        inside = slice(used[0], used[-1] + 1) if len(used) else slice(0, 0)
        edges_us = {"from_us": EDGES_US[:-1][inside], "to_us": EDGES_US[1:][inside]}
        return pd.DataFrame(edges_us | {"calls": np.asarray(counts)[inside]})

    def compare(self, after: Run, by: Literal["function", "path"] = "function") -> pd.DataFrame:
        """Return what changed from this run to a later one, by function or call path; most important first.

        Columns are the fields of ``Shift`` in ``chimbuko.provenance.compare.runcomparison``, with those of
        both runs as ``mean_before_us`` and ``mean_after_us``. What only one of the runs calls comes last,
        with the verdict ``new`` or ``vanished``.
        """
        found = compare(read_profile(self._provenance), read_profile(after.provenance))
        return shifts_frame(found, by)

    def sql(
        self,
        statement: str,
        parameters: Mapping[str, Value] | None = None,
        *,
        limit: int = CALL_LIMIT,
        time_limit_s: float = TIME_LIMIT_S,
    ) -> pd.DataFrame:
        """Return what the store answers to one SELECT, which cannot change anything.

        ``:name`` in it stands for a parameter, ``:run`` for the run's number and ``:run_id`` for its id.
        ``chimbuko sql --schema`` explains the tables.
        """
        bound = parameters_of(self._engine, self._provenance.run_id) | dict(parameters or {})
        with answer_to(self._engine, statement, bound, time_limit_s) as answer:
            rows = list(islice(answer.rows, limit + 1))
        return pd.DataFrame.from_records(limited(rows, limit), columns=answer.columns)

    def _timed(self, frame: pd.DataFrame) -> pd.DataFrame:
        if self._zero_us is None:
            times = self._provenance.steps.time_range()
            self._zero_us = None if times is None else times[0]
        return with_times(frame, self._zero_us or 0)

    def _nodes(self, programs: npt.NDArray[Any], ranks: npt.NDArray[Any]) -> pd.Categorical:
        return nodes_of(programs, ranks, nodes_by_rank(self._provenance))


def open_frames(run: str | os.PathLike[str] | None = None, run_id: str | None = None) -> Run:
    """Open a run for a notebook, while it goes on or afterwards; users call this as ``chimbuko.open``.

    Parameters
    ----------
    run
        The run's folder, its name or id under ``./chimbuko-runs``, or the URL of a store; by default the
        newest run under ``./chimbuko-runs``.
    run_id
        Run of a store that is given by URL; by default its newest.

    Raises
    ------
    ChimbukoError
        There is no such run, or its store cannot be read.
    """
    if isinstance(run, str) and "://" in run:
        return Run(open_for_reading(run), run_id)
    if run_id is not None:
        raise ConfigError(f"run_id {run_id!r}: goes with the URL of a store; a folder holds one run")
    directory = find_run(None if run is None else Path(run))
    info = directory.read_info()
    return Run(open_for_reading(directory.used_store_url(info)), info.id)
