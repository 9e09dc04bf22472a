"""Steps: counts of each analysed step of a rank."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from chimbuko.core.arrays import RankKey
from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.query.filters import Step
from chimbuko.provenance.query.steps import StepSum
from chimbuko.provenance.store.tables import NEVER_US
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import (
    MOST_RANKS,
    Limit,
    ListCursor,
    RankText,
    differences,
    page_of,
    parse_rank,
    rank_text,
)
from chimbuko.viz.api.statements import steps_statement

STEP_FIELDS = ("step", "start_us", "end_us", "calls", "anomalies", "severity_us", "highest_score")
STEPS_AT_ONCE = 50_000
"""Most steps in one answer: 12 ranks for an hour at one step a second, and 2 MB at most."""
Row = tuple[int, int, int, int, int, float, float]
"""One step, with the values of ``STEP_FIELDS`` in order: a history has thousands."""


class StepsParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks whose steps are wanted."""

    rank: Annotated[
        list[RankText],
        Meta(
            min_length=1,
            max_length=MOST_RANKS,
            description="At least one rank as PROGRAM:RANK, such as rank=0:3; several are possible.",
        ),
    ]
    after: Annotated[
        Step | None, Meta(description="Only steps after this one: `next` of the answer before.")
    ] = None


class Series(msgspec.Struct, frozen=True):
    """Steps of one rank, in order."""

    rank: str
    steps: list[Row]


class StepsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the histories of some ranks, all up to the same step."""

    fields: list[str]
    """Names of the numbers of a step."""
    series: list[Series]
    next: int | None
    """Step after which to ask again; null at the end."""


class StepColumns(msgspec.Struct, frozen=True):
    """Steps of one rank, in order, in columns with a number for each."""

    rank: str
    steps: list[int]
    """Number of the first step, and then the difference of each step to the one before it."""
    starts_us: list[int]
    """Start of the first step in µs since the epoch, and then the difference of each start to the one before
    it.
    """
    durations_us: list[int]
    calls: list[int]
    anomalies: list[int]
    severities_us: list[float]
    highest_scores: list[float]


class StepColumnsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the histories of some ranks, all up to the same step."""

    series: list[StepColumns]
    next: int | None
    """Step after which to ask again; null at the end."""


class LevelParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Number of steps that are summed up."""

    level: Annotated[
        int, Meta(ge=0, le=4, description="Power of 8 that is the number of steps summed up.")
    ] = 2


class StepSumsParameters(LevelParameters, frozen=True, kw_only=True):
    """Ranks, number of steps that are summed up, and the wanted page of the list."""

    rank: Annotated[
        list[RankText],
        Meta(
            max_length=MOST_RANKS,
            description="A rank as PROGRAM:RANK; several are possible, without any all are summed up.",
        ),
    ] = []
    limit: Limit = 50
    cursor: ListCursor = None


class StepSumsAnswer(Answer, frozen=True, kw_only=True):
    """Page of the list of sums, by program, rank and step."""

    sums: list[StepSum]
    next: str | None
    total: int


def _steps_statement(_: ServedRun, wanted: StepsParameters) -> str:
    return steps_statement([_key(text) for text in wanted.rank], wanted.after)


@get("/steps", _steps_statement)
def steps(run: ServedRun, wanted: StepsParameters) -> StepsAnswer:
    """Return the history of some ranks: the counts of each analysed step."""
    keys = list(dict.fromkeys(_key(text) for text in wanted.rank))
    rows, following = _history(run, keys, wanted.after)
    series = [Series(rank_text(key), rows[key]) for key in keys]
    return StepsAnswer(fields=list(STEP_FIELDS), series=series, next=following)


@get("/step-columns")
def step_columns(run: ServedRun, wanted: StepsParameters) -> StepColumnsAnswer:
    """Return the history of some ranks in columns, which are fewer bytes, for charts."""
    keys = list(dict.fromkeys(_key(text) for text in wanted.rank))
    rows, following = _history(run, keys, wanted.after)
    return StepColumnsAnswer(series=[_columns(key, rows[key]) for key in keys], next=following)


@get("/steps.ndjson")
def all_steps(run: ServedRun) -> Iterator[StepCount]:
    """List the stored history of all ranks, one step per line, by program, rank and step."""
    for key in sorted(run.provenance.steps.firsts()):
        yield from run.provenance.steps.counts([key])


@get("/step-sums")
def step_sums(run: ServedRun, wanted: StepSumsParameters) -> StepSumsAnswer:
    """List the stored history in steps of 8, 64, 512 or 4,096: of some ranks, or of a whole program."""
    keys = [_key(text) for text in wanted.rank] or None
    rows = run.provenance.steps.sums(wanted.level, keys)
    page, following = page_of(rows, wanted)
    return StepSumsAnswer(sums=[_timed(row) for row in page], next=following, total=len(rows))


@get("/step-sums.ndjson")
def all_step_sums(run: ServedRun, wanted: LevelParameters) -> Iterator[StepSum]:
    """List the stored history of each rank in steps of 8, 64, 512 or 4,096, by program, rank and step."""
    ranks = iter(sorted(run.provenance.steps.firsts()))
    while some := list(islice(ranks, MOST_RANKS)):
        yield from map(_timed, run.provenance.steps.sums(wanted.level, some))


def step_row(step: StepCount) -> Row:
    """Return one step as a row of ``STEP_FIELDS``."""
    return (
        step.step,
        step.start_us,
        step.end_us,
        step.calls,
        step.anomalies,
        step.severity_us,
        step.highest_score,
    )


def _columns(key: RankKey, rows: list[Row]) -> StepColumns:
    steps, starts_us, ends_us, *others = zip(*rows, strict=True) if rows else [()] * len(STEP_FIELDS)
    begins = np.array(starts_us, np.int64)
    return StepColumns(
        rank_text(key),
        differences(np.array(steps, np.int64)),
        differences(begins),
        (np.array(ends_us, np.int64) - begins).tolist(),
        *map(list, others),
    )


def _timed(sums: StepSum) -> StepSum:
    """Return steps with their times; those without events begin at 0."""
    return sums if sums.start_us < NEVER_US else msgspec.structs.replace(sums, start_us=0)


def _key(text: str) -> RankKey:
    program, rank = parse_rank(text)
    return program or 0, rank


def _history(
    run: ServedRun, keys: list[RankKey], after: int | None
) -> tuple[dict[RankKey, list[Row]], int | None]:
    """Return the steps of these ranks, in the store or not there yet."""
    first = None if after is None else after + 1
    last = (-1 if after is None else after) + max(1, STEPS_AT_ONCE // len(keys))
    # The feed is asked first: steps that it forgets in between are in the store by then.
    recent = run.feed.state.totals.recent_steps(keys)
    found = {(step.program, step.rank, step.step): step for step in recent}
    for step in run.provenance.steps.counts(keys, first, last):
        found[step.program, step.rank, step.step] = step
    rows: dict[RankKey, list[Row]] = {key: [] for key in keys}
    for program, rank, number in sorted(found):
        if (after is None or number > after) and number <= last:
            rows[program, rank].append(step_row(found[program, rank, number]))
    newest = run.feed.status().last_step
    return rows, last if newest is not None and newest > last else None
