"""Budget of the run: where all its time went, step by step, too, and what of it was lost."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.provenance.budget.budget import Budget
from chimbuko.provenance.budget.runbudget import run_budget
from chimbuko.provenance.budget.steptimes import StepTimes, step_times
from chimbuko.provenance.query.filters import Step
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import MOST_RANKS, RankText, parse_rank


class BudgetAnswer(Answer, frozen=True, kw_only=True):
    """Budget of the run, as far as it has come."""

    budget: Budget


class StepTimesParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Ranks and steps whose time is wanted."""

    rank: Annotated[
        list[RankText],
        Meta(
            max_length=MOST_RANKS,
            description="A rank as PROGRAM:RANK; several are possible, without any all are added up.",
        ),
    ] = []
    step_min: Annotated[Step | None, Meta(description="First step wanted.")] = None
    step_max: Annotated[Step | None, Meta(description="Last step wanted.")] = None


class StepTimesAnswer(Answer, frozen=True, kw_only=True):
    """Time of threads over the steps of the run, divided as its budget is."""

    times: StepTimes


@get("/budget")
def budget(run: ServedRun) -> BudgetAnswer:
    """Return where the time of all threads went, and what of it was lost."""
    return BudgetAnswer(budget=run_budget(run.provenance))


@get("/step-times")
def time_by_step(run: ServedRun, wanted: StepTimesParameters) -> StepTimesAnswer:
    """Return where the time of threads went, step by step, or by stretches of 8, 64, 512 or 4,096 steps."""
    steps = None
    if wanted.step_min is not None or wanted.step_max is not None:
        newest = run.feed.status().last_step or 0
        steps = wanted.step_min or 0, newest if wanted.step_max is None else wanted.step_max
    ranks = {(program or 0, rank) for program, rank in map(parse_rank, wanted.rank)}
    return StepTimesAnswer(times=step_times(run.provenance, ranks, steps))
