"""Run: its settings, its state, its most important figures, the formats for its export, and the budget of
its time.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from chimbuko.core.config import AnalysisConfig, detector_entry, least_calls
from chimbuko.core.plugins import working
from chimbuko.provenance.export.registry import FORMATS, Format
from chimbuko.provenance.incidents.budget import Budget
from chimbuko.provenance.incidents.incidentlist import Incidents
from chimbuko.provenance.incidents.runbudget import StepTimes, run_budget, step_times
from chimbuko.provenance.query.filters import CallFilter, Step
from chimbuko.viz.api.endpoint import Answer, ServedRun, get
from chimbuko.viz.api.parameters import MOST_RANKS, RankText, parse_rank, rank_text
from chimbuko.viz.live.status import Status


class Headline(msgspec.Struct, frozen=True):
    """Figures of the sentence with which the page opens."""

    anomalies: int
    ranks_with_anomalies: int
    functions: int
    functions_judged: int
    """Number of functions that were called often enough for one of their calls to be flagged."""
    worst_function: str | None
    """Function that lost most time."""
    worst_severity_us: float
    worst_call: str | None
    worst_rank: str | None
    """Rank on which the most costly incident began; without any, that of the worst call."""


class RunAnswer(Answer, frozen=True, kw_only=True):
    """Description and state of one run."""

    id: str
    name: str
    command: list[str]
    directory: str
    state: str
    exit_code: int | None
    started_us: int
    ended_us: int
    host: str
    version: str
    environment: dict[str, str]
    """Environment variables that describe where the application ran."""
    programs: dict[str, str]
    """Name of each program by its number, as text."""
    config: AnalysisConfig
    score_unit: str
    """Unit of the detector's scores; empty if they have none."""
    live: bool
    """Whether news of the run arrive by themselves."""
    has_published: bool
    """Whether programs, nodes or a workflow have published something in the run."""
    status: Status
    answer: Headline


@get("/run")
def run(run: ServedRun) -> RunAnswer:
    """Return the run's description, its state, and its findings so far."""
    info = run.feed.state.info
    return RunAnswer(
        id=info.id,
        name=info.name,
        command=info.command,
        directory=str(run.feed.run.path),
        state=info.state,
        exit_code=info.exit_code,
        started_us=info.started_us,
        ended_us=info.ended_us,
        host=info.host,
        version=info.version,
        environment=info.environment,
        programs={str(number): name for number, name in run.provenance.programs().items()},
        config=info.config,
        score_unit=_score_unit(info.config.detector),
        live=run.feed.is_live,
        has_published=run.feed.run.observed_path.exists(),
        status=run.feed.status(),
        answer=_headline(run),
    )


def _score_unit(detector: str) -> str:
    entry = detector_entry(detector)
    return entry.unit if entry else ""


def _headline(run: ServedRun) -> Headline:
    functions = run.feed.state.totals.worst_functions()
    least = least_calls(run.feed.state.info.config.detector)
    worst = functions[0] if functions and functions[0].anomalies else None
    wanted = CallFilter(function=worst.name, program=worst.program) if worst else CallFilter()
    calls = run.provenance.calls.page(wanted, sort="severity_us", limit=1).calls
    places = [(call.program, call.rank) for call in calls]
    for incident in Incidents(run.provenance.reader).page(limit=1, with_ignored=False).incidents:
        if incident.rank is not None:
            places.insert(0, (incident.program, incident.rank))
    return Headline(
        anomalies=run.feed.status().anomalies,
        ranks_with_anomalies=run.feed.state.totals.sums.with_anomalies,
        functions=len(functions),
        functions_judged=sum(function.calls >= least for function in functions),
        worst_function=worst.name if worst else None,
        worst_severity_us=worst.severity_us if worst else 0.0,
        worst_call=calls[0].id if calls else None,
        worst_rank=rank_text(places[0]) if places else None,
    )


class ExportFormat(msgspec.Struct, frozen=True):
    """Format for export."""

    name: str
    purpose: str
    ending: str
    """Ending of the file's name; empty if the export is a folder."""
    is_installed: bool
    """Whether the library that the format needs is installed."""


class ExportFormatsAnswer(Answer, frozen=True, kw_only=True):
    """Formats for export."""

    formats: list[ExportFormat]


@get("/export-formats")
def export_formats(run: ServedRun) -> ExportFormatsAnswer:
    """List the formats in which recorded calls can be written for other tools."""
    return ExportFormatsAnswer(
        formats=[
            ExportFormat(name, form.purpose, form.ending, form.is_installed)
            for name, form in [*FORMATS.items(), *working("exporters", Format)]
        ]
    )


# Budget of the run: where all its time went, step by step, too, and what of it was lost.


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
