"""What a filter wants, what sums are, how steps add up, by looking at every record: twins of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from chimbuko.core.calls.functionnames import shown_name
from chimbuko.core.calls.record import CallRecord, StepCount
from chimbuko.core.calls.schema import Label
from chimbuko.provenance.query.filters import CallFilter, matching_functions, matching_names


def matching(wanted: CallFilter, calls: Sequence[CallRecord]) -> list[CallRecord]:
    """Calls that a filter wants, of all; patterns mean names of all."""
    functions = {frame.function for each in calls for frame in each.call_stack} | {c.function for c in calls}
    nodes = {each.node for each in calls}
    return [call for call in calls if _wants(wanted, call, functions, nodes)]


def _wants(wanted: CallFilter, call: CallRecord, functions: set[str], nodes: set[str]) -> bool:
    on_path = {frame.function for frame in call.call_stack}
    is_open = call.exit_us == 0
    last_us = float("inf") if is_open else call.entry_us + call.inclusive_us
    checks: dict[str, Callable[[Any], bool]] = {
        "label": lambda label: call.label == label,
        "function": lambda pattern: call.function in matching_functions(pattern, functions),
        "through": lambda pattern: bool(on_path & matching_functions(pattern, functions)),
        "node": lambda pattern: call.node in matching_names(pattern, nodes),
        "program": lambda program: call.program == program,
        "rank": lambda rank: call.rank == rank,
        "rank_min": lambda rank: call.rank >= rank,
        "rank_max": lambda rank: call.rank <= rank,
        "thread": lambda thread: call.thread == thread,
        "step_min": lambda step: call.step >= step,
        "step_max": lambda step: call.step <= step,
        "time_min_us": lambda time_us: last_us >= time_us,
        "time_max_us": lambda time_us: call.entry_us <= time_us,
        "min_severity_us": lambda severity_us: call.severity_us >= severity_us,
        "max_severity_us": lambda severity_us: call.severity_us <= severity_us,
        "min_score": lambda score: call.score >= score,
        "max_score": lambda score: call.score <= score,
        "is_open": lambda value: is_open == value,
        "is_gpu": lambda value: call.is_gpu == value,
        "detector": lambda detector: call.detector == detector,
        "text": lambda text: any(
            text.casefold() in name.casefold()
            for name in {*on_path, *map(shown_name, on_path | {call.function}), call.function, call.node}
        ),
    }
    return all(check(value) for name, check in checks.items() if (value := getattr(wanted, name)) is not None)


def totals(key: Callable[[CallRecord], Any], calls: Iterable[CallRecord]) -> dict[Any, tuple[Any, ...]]:
    """Anomalies, severity in all, highest severity and score, first and last entry, by key."""
    groups: dict[Any, list[CallRecord]] = defaultdict(list)
    for call in calls:
        if call.label is Label.ANOMALY:
            groups[key(call)].append(call)
    return {
        of: (
            len(group),
            sum(call.severity_us for call in group),
            max(call.severity_us for call in group),
            max(call.score for call in group),
            min(call.entry_us for call in group),
            max(call.entry_us for call in group),
        )
        for of, group in groups.items()
    }


def step_sums(
    steps: Iterable[StepCount], length: int, over_ranks: bool
) -> dict[tuple[int, int, int], tuple[Any, ...]]:
    """By program, rank (-1 for all) and first step: steps, calls, anomalies, severity, highest score,
    most anomalies of a step."""
    groups: dict[tuple[int, int, int], list[StepCount]] = defaultdict(list)
    for step in steps:
        rank = -1 if over_ranks else step.rank
        groups[step.program, rank, step.step // length * length].append(step)
    return {
        key: (
            len(some),
            sum(step.calls for step in some),
            sum(step.anomalies for step in some),
            sum(step.severity_us for step in some),
            max(step.highest_score for step in some),
            max(step.anomalies for step in some),
        )
        for key, some in groups.items()
    }
