"""Merges several runs of one program into one profile, which still knows each of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from chimbuko.causes.wording import least_sure
from chimbuko.core.errors import ConfigError
from chimbuko.provenance.compare.levels import Level
from chimbuko.provenance.compare.runprofile import (
    Findings,
    FunctionKey,
    FunctionProfile,
    PathProfile,
    RankProfile,
    RunProfile,
    Spent,
    pair_functions,
)

Item = TypeVar("Item")


def merged(runs: Sequence[RunProfile]) -> RunProfile:
    """Return one profile in the middle of these: calls, times and costs are means per run.

    It has the functions, paths and ranks that each of the runs has, by their names in the first. A single run
    is left as it is.

    Raises
    ------
    ConfigError
        The runs judge by different runtimes.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    for run in runs[1:]:
        check_metrics(first, run)
    names = [_names_in(first, run) for run in runs]
    programs = [{theirs[0]: ours[0] for theirs, ours in of_run.items()} for of_run in names]
    return RunProfile(
        id=",".join(run.id for run in runs),
        name=", ".join(run.name for run in runs),
        metric=first.metric,
        duration_us=round(_mean(run.duration_us for run in runs)),
        functions=_aligned(
            [run.functions for run in runs],
            lambda at, one: names[at].get((one.program, one.name)),
            _function,
        ),
        paths=_aligned(
            [run.paths for run in runs],
            lambda at, one: tuple(
                names[at].get((one.program, name), (one.program, name)) for name in one.functions
            ),
            _path,
        ),
        ranks=_aligned(
            [run.ranks for run in runs],
            lambda at, one: (programs[at].get(one.program, one.program), one.rank),
            _rank,
        ),
        incidents=_findings([run.incidents for run in runs]),
        recurring=_findings([run.recurring for run in runs]),
        metrics={key: sentence for run in reversed(runs) for key, sentence in run.metrics.items()},
        of_runs=tuple(runs),
        ranks_us=_mean(run.total_us for run in runs),
        waited=max(run.waited for run in runs),
    )


def check_metrics(before: RunProfile, after: RunProfile) -> None:
    """Check that both sides judge by the same runtime.

    Raises
    ------
    ConfigError
        They do not.
    """
    if before.metric != after.metric:
        raise ConfigError(
            f"{before.name} judges by {before.metric} runtimes and {after.name} by {after.metric} ones: "
            "run one again with the other's --metric"
        )


def _names_in(first: RunProfile, run: RunProfile) -> dict[FunctionKey, FunctionKey]:
    """Return which function of the first run each function of another run is."""
    ours, theirs = ([(function.program, function.name) for function in one.functions] for one in (first, run))
    return {there: here for here, there in pair_functions(ours, theirs).items()}


def _aligned(
    lists: Sequence[Sequence[Item]],
    key: Callable[[int, Item], Hashable],
    merge: Callable[[tuple[Item, ...]], Item],
) -> list[Item]:
    """Return the items that all lists have, merged.

    ``key`` is called with the number of a list and an item of it.
    """
    by_key = [{key(at, one): one for one in items} for at, items in enumerate(lists)]
    shared = [name for name in by_key[0] if name is not None and all(name in other for other in by_key)]
    return [merge(tuple(items[name] for items in by_key)) for name in shared]


def _function(of_runs: tuple[FunctionProfile, ...]) -> FunctionProfile:
    counts = [one.counts for one in of_runs if one.counts is not None]
    return replace(
        of_runs[0],
        calls=round(_mean(one.calls for one in of_runs)),
        anomalies=round(_mean(one.anomalies for one in of_runs)),
        severity_us=_mean(one.severity_us for one in of_runs),
        mean_us=_mean_us(of_runs),
        level=_level([one.level for one in of_runs]),
        level_of_all=_level([one.level_of_all for one in of_runs]),
        counts=np.mean(counts, axis=0) if len(counts) == len(of_runs) else None,
        all_calls=Spent(_mean(one.spent.calls for one in of_runs), _mean(one.spent.us for one in of_runs)),
        of_runs=of_runs,
    )


def _path(of_runs: tuple[PathProfile, ...]) -> PathProfile:
    return replace(
        of_runs[0],
        calls=round(_mean(one.calls for one in of_runs)),
        mean_us=_mean_us(of_runs),
        level=_level([one.level for one in of_runs]),
        of_runs=of_runs,
    )


def _rank(of_runs: tuple[RankProfile, ...]) -> RankProfile:
    return replace(
        of_runs[0],
        calls=round(_mean(one.calls for one in of_runs)),
        anomalies=round(_mean(one.anomalies for one in of_runs)),
        severity_us=_mean(one.severity_us for one in of_runs),
        of_runs=of_runs,
    )


def _findings(of_runs: Sequence[Findings]) -> Findings:
    number, cost_us = _mean(one.number for one in of_runs), _mean(one.cost_us for one in of_runs)
    return Findings(round(number), cost_us, least_sure(one.bound for one in of_runs))


def _level(of_runs: Sequence[Level | None]) -> Level | None:
    known = [level for level in of_runs if level is not None]
    if len(known) < len(of_runs):
        return None
    return Level(
        _mean(level.ln_us for level in known),
        _mean(level.calls for level in known),
        _mean(level.sampling for level in known),
    )


def _mean_us(of_runs: Sequence[FunctionProfile] | Sequence[PathProfile]) -> float:
    """Return mean runtime of all calls of all runs, in µs."""
    calls = sum(one.calls for one in of_runs)
    return sum(one.calls * one.mean_us for one in of_runs) / max(1, calls)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
