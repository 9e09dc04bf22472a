"""Other runs beside this one, and what changed from one of them to this one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.provenance.compare.comparison import Comparison, compare
from chimbuko.provenance.compare.runprofile import read_profile
from chimbuko.provenance.compare.wording import sentences
from chimbuko.provenance.query.filters import Text
from chimbuko.provenance.query.run import Provenance, open_run
from chimbuko.runs.directory import RunDirectory
from chimbuko.viz.api.endpoint import Answer, Missing, ServedRun, get
from chimbuko.viz.api.runslist import RunsAnswer, RunsList, readable_runs

MOST_FUNCTIONS = 500
"""In one answer, the most important first: 1 kB each, with the distributions."""


class ComparisonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Which run to compare with."""

    before: Annotated[Text, Meta(description="The folder of the run before, as the list of runs has it.")] = (
        msgspec.field(name="with")
    )


class ComparisonAnswer(Answer, frozen=True, kw_only=True):
    """What changed from the run before to this one."""

    sentences: list[str]
    """The most important first."""
    comparison: Comparison
    """Of many functions and paths those that matter most."""
    functions: int
    """How many there are in both runs."""


@get("/runs")
def runs(run: ServedRun) -> RunsAnswer:
    """The runs in the folder that this one's folder is in: those that go on, then the newest first."""
    return RunsList(run.feed.run.path.parent).answer(run.feed.run)


@get("/comparison")
def comparison(run: ServedRun, wanted: ComparisonParameters) -> ComparisonAnswer:
    """What changed from another run to this one: shifts of runtimes, new functions, anomalies, ranks."""
    return compared(run.feed.run, run.provenance, wanted)


def compared(
    run: RunDirectory,
    provenance: Provenance,
    wanted: ComparisonParameters,
    progress: Callable[[float, str], None] = lambda share, text: None,
) -> ComparisonAnswer:
    """What changed from another run to ``run``, whose provenance is given.

    Raises
    ------
    Missing
        There is no such run beside it.
    """
    progress(0.0, "Reading runs")
    # Only names that the list has: an address shall not open any other folder.
    if wanted.before not in {other.path.name for other, _ in readable_runs(run.path.parent)}:
        raise Missing(
            f"run {wanted.before[:200]!r}: none of this name beside this one; /api/v1/runs lists them"
        )
    with open_run(RunDirectory(run.path.parent / wanted.before)) as other:
        before = read_profile(other, lambda share, text: progress(0.45 * share, text))
    after = read_profile(provenance, lambda share, text: progress(0.45 + 0.45 * share, text))
    progress(0.9, "Comparing")
    found = compare(before, after)
    shown = msgspec.structs.replace(
        found, functions=found.functions[:MOST_FUNCTIONS], paths=found.paths[:MOST_FUNCTIONS]
    )
    return ComparisonAnswer(sentences=sentences(found), comparison=shown, functions=len(found.functions))
