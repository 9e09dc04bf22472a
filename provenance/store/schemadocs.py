"""Meanings of the tables, views and columns of the store, for whoever writes SQL."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Engine, inspect
from sqlalchemy.types import NullType, TypeEngine

from chimbuko.core.calls.schema import FIELDS, STORED
from chimbuko.provenance.store.engine import store_errors

TABLES = {
    "anomalies": "View: an abnormal call, with names in place of numbers",
    "normal_calls": "View: a normal call that was recorded for comparison, with names in place of numbers",
    "runs": "A run; the other tables name it by its number",
    "programs": "A program of a run",
    "functions": "A function of a program; numbered within the run",
    "texts": "A text that a run repeats: name of a counter, key or value of metadata",
    "paths": "A call path: the path of the caller, and the function that it calls",
    "calls": "A recorded call: abnormal, or normal for comparison",
    "incidents": "A delay, with all that was flagged because of it",
    "recurrences": "What cost time again and again",
    "marks": "What somebody said of an incident or a recurring finding",
    "metric_findings": "What was wrong with a quantity that programs publish",
    "steps": "What the analysis of one step of one rank counted, also without anomalies",
    "step_levels": "Sums over 8, 64, 512 ... steps of a rank, and over all ranks of a program",
    "step_histograms": "How many steps of a rank had so many anomalies",
    "function_totals": "Sums over the recorded calls of a function",
    "rank_totals": "Sums over the recorded calls of a rank",
    "path_totals": "Sums over the recorded calls with a call path",
    "step_totals": "Sums over the recorded calls of all ranks that ended in a step",
    "time_totals": "Sums over the recorded calls that were entered in a second, or in 64 seconds",
    "node_samples": "What threads, cores and memory of a node did: around flagged calls, and sums over time",
    "node_states": "Watched counters as they stood in a step of a rank that calls are recorded of",
    "models": "What the detector knew of a function in a version of the global model",
    "stream_health": "Latest totals of a rank's stream: what was read, and what was lost",
    "counter_statistics": "Latest moments of a counter of a rank",
    "metadata": "An attribute of a rank or thread",
    "dropped": "Anomalies that are not recorded: too many of their function, or no room for them",
    "prunings": "Calls of a function that were removed afterwards",
    "function_statistics": "Latest statistics of a function over all its calls on all ranks",
    "path_statistics": "Latest statistics of a call path over all its calls on all ranks",
    "rank_paths": "What the calls of a rank took by call path, once its stream has ended",
}
"""Meaning of a row of each table and view."""

_ANYWHERE = {
    "run": "The run's number (runs.number)",
    "program": "The program's number in the run",
    "rank": "MPI rank, or number of the instance of a program without MPI",
    "thread": "Thread of the rank",
    "step": "Step of the trace",
    "node": "Name of the compute node",
    "function": "The function's number in the run (functions.number)",
    "name": "Its name",
    "number": "Its number, which other tables name it by",
    "path": "The call path's number in the run (paths.number); -1 if it is not known",
    "calls": "Number of calls",
    "anomalies": "Number of abnormal calls",
    "normal_calls": "Number of normal calls that are recorded for comparison",
    "steps": "Number of steps",
    "severity_us": "Time lost against what was expected, in µs",
    "highest_severity_us": "Most time that one of them lost, in µs",
    "highest_score": "Highest score of the anomalies; 0 without any",
    "first_us": "When the first of them was entered, in µs since 1970 on the trace's clock",
    "last_us": "When the last of them was entered, in µs since 1970 on the trace's clock",
    "bucket": "Which of the stretches of this level: the step, or second, divided by their length",
    "start_us": "Time of its first event, in µs since 1970 on the trace's clock",
    "end_us": "Time of its last event, in µs since 1970 on the trace's clock",
    "computing_us": "Time of threads in their own code, also asleep or without a core, in µs",
    "mpi_us": "Time of threads in MPI, in µs",
    "io_us": "Time of threads in reading and writing files, in µs",
    "awaiting_us": "Time of coroutines that await, in µs",
    "counters": "Packed; chimbuko show and chimbuko.open(...).call(...) unpack it",
    "counter": "Number of the counter's name (texts.number)",
}
"""Meanings of columns that are the same in all tables, but for ``_HERE``."""

_OF_CALLS = {name: field.meaning for name, field in STORED.items() if name not in ("program", "rank", "path")}
_RUNTIMES = {
    "exclusive_mean_us": "Mean exclusive runtime, in µs",
    "exclusive_stddev_us": "Standard deviation of the exclusive runtime, in µs",
    "exclusive_minimum_us": "Shortest exclusive runtime, in µs",
    "exclusive_maximum_us": "Longest exclusive runtime, in µs",
    "inclusive_mean_us": "Mean inclusive runtime, in µs",
    "inclusive_stddev_us": "Standard deviation of the inclusive runtime, in µs",
    "inclusive_minimum_us": "Shortest inclusive runtime, in µs",
    "inclusive_maximum_us": "Longest inclusive runtime, in µs",
}
_IN_VIEWS = {
    "incident_id": FIELDS["incident_id"].meaning,
    "run_id": "The run's id",
    "call": "The call's id, as chimbuko show takes it",
    "function": "Name of the function",
    "exit_us": "When it ended, in µs since 1970 on the trace's clock; NULL while it is open",
}

_OF_FINDINGS = {
    "begin_us": "When its first call was entered, in µs since 1970 on the trace's clock",
    "end_us": "When its last call ended, in µs since 1970 on the trace's clock",
    "cost_us": "Core time lost on all ranks, in µs",
    "sentence": "What happened, in a sentence",
    "details": "JSON, compressed with zlib",
}
_HERE = {
    "anomalies": _OF_CALLS | _IN_VIEWS,
    "normal_calls": _OF_CALLS | _IN_VIEWS,
    "paths": {"parent": "Number of the caller's path; -1 without one", "depth": "Calls around it"},
    "runs": {
        "id": "The run's id",
        "command": "The command line, a JSON array",
        "state": "running, finished or interrupted",
        "started_us": "When it was started, in µs since 1970",
        "ended_us": "When it ended, in µs since 1970; 0 while it goes on",
        "exit_code": "The application's",
        "host": "Where it was started",
        "store_url": "Where it was stored",
        "config": "Settings of the analysis, a JSON object",
        "version": "Chimbuko's",
        "environment": "Of the run, a JSON object",
        "folder": "Its folder, from which alone its rows are deleted; empty in a store of its own",
        "transport": "How its trace came: files, sst or recorded; empty if nobody knows",
        "trace_bytes": "Size of the trace that was read",
        "stored_bytes": "Size of what was kept of it",
    },
    "texts": {"text": "The text"},
    "calls": _OF_CALLS
    | {
        "id": "Number of the row; a call's id is program:rank:begin_step:begin_row",
        "incident_id": FIELDS["incident_id"].meaning,
        "details": "Stack, window, messages and counters, packed; chimbuko show unpacks them",
    },
    "incidents": {
        "merged_into": "Number of the incident that it became part of; 0 if it is one of its own",
        "is_gone": "Whether no flagged call of it is left",
        "kind": "Main cause of the delay",
        "rank": "Where the delay was; -1 if that is not known",
        "function": "In which function (functions.number); -1 if that is not known",
        "call": "Id of the call that was delayed; empty if it is not on record",
        "flags": "Abnormal calls in it",
        "ranks": "Ranks that lost time",
        "bound": "How sure the cost is: 0 exact, 1 estimated, 2 at least",
    }
    | _OF_FINDINGS,
    "recurrences": {
        "kind": "What kind of finding it is",
        "function": "Of which function (functions.number); -1 if it is not one alone",
        "calls": "Calls that are meant",
    }
    | _OF_FINDINGS,
    "marks": {
        "finding": "Id of the incident or recurring finding",
        "state": "known, ignored or noted",
        "note": "What its author says of it",
        "author": "Who marked it",
        "marked_us": "When, in µs since 1970",
    },
    "metric_findings": {
        "kind": "global drift, local drift, departure or not a number",
        "quantity": "Key under which it is published, without the rank",
        "begin_us": "When the step at which it began was published, in µs since 1970",
        "found_us": "When the step at which it was found was published, in µs since 1970",
        "sentence": "What is wrong, in words",
        "details": "The finding as JSON, compressed with zlib; chimbuko show prints it",
    },
    "node_samples": {
        "sequence": "Larger in each batch of samples of a node",
        "begin_us": "From when on, in µs since 1970",
        "end_us": "Until when, in µs since 1970",
        "is_sum": "Whether it has sums of all that the node did; else samples from around flagged calls",
        "rows": "Packed; chimbuko show and /api/v1/node unpack it",
    },
    "steps": {"gpu_us": "Time of threads that wait for a GPU, in µs"},
    "step_levels": {
        "gpu_us": "Time of threads that wait for a GPU, in µs",
        "level": "Sums are over 8 to this power of steps",
        "rank": "MPI rank; -1 for all ranks of the program",
        "most_anomalies": "Most anomalies that one rank had in one step",
        "peaks": "A byte for each eighth, the first lowest: 0, or the most anomalies of a step of it and 1",
        "highest_lost_us": "Most time that one rank lost in one step, in µs",
        "lost_peaks": "As peaks, of the time lost: thirds of its binary logarithm in µs, rounded up",
    },
    "step_histograms": {
        "anomalies": "How many anomalies the steps have",
        "steps": "How many steps have so many",
        "last_step": "The last of them",
    },
    "time_totals": {"level": "0 for seconds, 1 for 64 seconds"},
    "models": {
        "version": "Of the global model",
        "model": "Row of the detector's table, compressed with zlib",
    },
    "stream_health": {
        "state": "reading, silent, ended, broken or lost",
        "rows": "Number of rows read",
        "size_bytes": "Bytes read",
        "gap_steps": "Steps that were never seen",
        "threads": "Number of threads with events, without those of GPUs",
        "thread_us": "Time of all of them together, each from its first to its last event, in µs",
        "gap_us": "Part of that time that lies in gaps of the stream",
        "gpu_us": "Time of calls on GPUs, in µs",
        "losses": "Rows and calls that were not used, by kind: a JSON object",
        "silence": "While it is silent: since when, and in what function",
        "largest_step_bytes": "Bytes of its largest step",
        "open_calls": "Calls that had begun, and not ended, in what was read",
        "source": "What recorded it, the calls that saw, and by reason those it did not write: a JSON object",
    },
    "counter_statistics": {
        "n": "Number of values",
        "mean": "Mean value",
        "m2": "Sum of the squared differences from the mean",
        "m3": "Sum of the cubed differences",
        "m4": "Sum of the fourth powers of the differences",
        "minimum": "Smallest value",
        "maximum": "Largest value",
    },
    "metadata": {"key": "Number of its name (texts.number)", "value": "Number of its value (texts.number)"},
    "dropped": {"stream": "PROGRAM:RANK", "function": "Name of the function"},
    "prunings": {
        "pruned_us": "When they were removed, in µs since 1970",
        "rule": "What was removed",
    },
    "path_statistics": _RUNTIMES
    | {
        "begun": "Number of all calls, also of first and doubtful ones and of those that have not ended",
        "spent_us": "Exclusive time of all of them, in µs",
        "looked_us": "Time for which looks at their threads stand that found them innermost, in µs",
        "asleep_us": "Part of it for which these threads were asleep, in µs",
    },
    "rank_paths": {
        "paths": "Number of each call path with its calls and time in itself, packed; the dashboard shows it"
    },
    "function_statistics": _RUNTIMES
    | {
        "calls": "Number of all calls, also of first and doubtful ones, whose runtimes do not count",
        "drift": "How many times as long its calls take now as at first",
        "flagged_steps": "Steps of a rank that had abnormal calls of it; 0 if it is not known",
        "flagged_squares": "Sum of the squares of the numbers of abnormal calls in such steps",
        "flagged_cubes": "Sum of the cubes",
        "flagged_fourths": "Sum of the fourth powers",
        "fewest_flagged": "Fewest abnormal calls in such a step",
        "most_flagged": "Most abnormal calls in such a step",
    },
}


class ColumnMeaning(msgspec.Struct, frozen=True):
    """Column of a table with its meaning."""

    name: str
    type: str
    """Type as the database calls it; empty if it does not say, as for what SQLite computes for a view."""
    meaning: str


class TableMeaning(msgspec.Struct, frozen=True):
    """Table or view with its meaning."""

    name: str
    meaning: str
    columns: list[ColumnMeaning]


def describe(engine: Engine) -> list[TableMeaning]:
    """Return the tables and views of a store with their meanings, in the order of ``TABLES``.

    Raises
    ------
    StoreError
        It cannot be read.
    """
    with store_errors(engine):
        found = inspect(engine)
        present = {*found.get_table_names(), *found.get_view_names()}
        return [
            TableMeaning(
                table,
                TABLES[table],
                [
                    ColumnMeaning(column["name"], _type(column["type"]), _meaning(table, column["name"]))
                    for column in found.get_columns(table)
                ],
            )
            for table in TABLES
            if table in present
        ]


def _type(found: TypeEngine[Any]) -> str:
    return "" if isinstance(found, NullType) else str(found)


def _meaning(table: str, column: str) -> str:
    return _HERE.get(table, {}).get(column) or _ANYWHERE.get(column, "")
