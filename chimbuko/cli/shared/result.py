"""The result of a run, for people or as JSON.

Where the analysis itself should run, for people and as JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import asdict

from chimbuko.cli.shared.table import Column, Output
from chimbuko.core.errors import ChimbukoError, ConfigError
from chimbuko.core.names import escaped_json, visible
from chimbuko.core.units import format_change, format_share, number_of
from chimbuko.launcher.outcome.progress import say
from chimbuko.launcher.outcome.summary import Result, problem_lines, summary_lines
from chimbuko.plan.placingadvice import AgentAdvice, points
from chimbuko.runtime.process.lifetime import write_error
from chimbuko.runtime.runs.directory import RunDirectory

if TYPE_CHECKING:
    from chimbuko.plan.placingadvice import AgentAdvice

MOST_ADVISED = 4
"""Nodes of a run, those with most events."""


def print_advice(advice: AgentAdvice, output: Output) -> None:
    """Print the advice for one node: the placement that is recommended, why, and all placements; of a run
    whose intervals differ too much, that there is none.
    """
    load = advice.load
    try:
        advice.check_certain()
    except ConfigError as error:
        output.line(str(error), "bold")
        return
    cores = f"--cores {advice.cores}" if advice.cores else "on all cores"
    settings = f"--agents {advice.agents} --period {advice.period_s:g} --transport {advice.transport} {cores}"
    output.line(f"{advice.measured.node}: {settings}", "bold")
    for sentence in advice.why:
        output.line(f"  {sentence}")
    if advice.measured.is_bare:
        output.line("  this is by the clock of the recorded trace, and for the cores of this machine")
    if advice.interval_s is None:
        output.line("  it is not known how certain this is: the run had one interval, and more say it")
    else:
        low_s, high_s = advice.interval_s
        output.line(f"  95 % of such runs take {low_s:.3g} to {high_s:.3g} s of CPU for it, in each step")
    output.line(
        f"{number_of(load.streams, 'streams')} with {advice.rows_per_s:,.0f} events/s; a step of it in "
        f"{load.step_s:.3g} s without the analysis, whose agents take {load.analysis_s:.3g} s of CPU for it"
    )
    if advice.wait_s is not None:
        output.line(f"a step had reached the agent, analysed, {advice.wait_s:.2g} s after its end")
    columns = [Column("ANALYSIS"), Column("CORES", True), Column("APPLICATION'S", True)]
    columns += [Column("S/STEP", True), Column("ADDED", True), Column("BUSY", True), Column("")]
    rows = [
        [
            one.placement.where.value,
            f"{one.placement.cores:g}",
            str(one.application_cores),
            f"{one.step_s:.4g}",
            format_change(one.added_share, ".2f"),
            format_share(one.busy_share, ".1f"),
            "" if one.keeps_up else "falls behind",
        ]
        for one in advice.outcomes
    ]
    output.table(columns, rows)


def print_intervals(advices: Sequence[AgentAdvice], output: Output) -> None:
    """Print the time of the analysis in each interval beside what all others predict."""
    columns = [Column("NODE"), Column("EVENTS/S", True), Column("STEPS/S", True)]
    columns += [Column("MEASURED, CPU S/STEP", True), Column("PREDICTED", True), Column("ERROR", True)]
    rows = []
    for one in advices:
        for point in points(one.measured.loads):
            error = format_change(point.predicted_s / point.measured_s - 1) if point.measured_s else ""
            rates = [f"{point.rows_per_s:,.0f}", f"{point.steps_per_s:,.1f}"]
            rows.append(
                [one.measured.node, *rates, f"{point.measured_s:.3g}", f"{point.predicted_s:.3g}", error]
            )
    output.table(columns, rows)


def as_advice(advice: AgentAdvice) -> dict[str, Any]:
    """Return advice for JSON."""
    recommended = {
        "node": advice.measured.node,
        "agents": advice.agents,
        "cores": advice.cores,
        "period_s": advice.period_s,
        "transport": advice.transport,
        "why": list(advice.why),
    }
    measured = {
        "load": asdict(advice.load),
        "unit_costs_s": asdict(advice.costs),
        "rows_per_s": advice.rows_per_s,
        "bytes_per_s": advice.bytes_per_s,
        "wait_s": advice.wait_s,
        "analysis_interval_s": advice.interval_s,
        "is_certain": advice.is_certain,
        "intervals": [asdict(point) for point in points(advice.measured.loads)],
    }
    placements = [
        {**asdict(one), "placement": str(one.placement), "keeps_up": one.keeps_up} for one in advice.outcomes
    ]
    return {**recommended, "placements": placements, **measured}


def show(result: Result, as_json: bool, advise: bool = False) -> None:
    """Print the summary on standard error, or as JSON on standard output; without a summary, the problems.

    Parameters
    ----------
    advise
        Also show where the analysis had best run.
    """
    problems = list(result.problems)
    advices: list[AgentAdvice] = []
    if advise:
        # Here because it would be loaded before the program starts.
        from chimbuko.cli.shared.table import Output
        from chimbuko.provenance.query.placing import advices as advices_of

        try:
            advices = advices_of(RunDirectory(Path(result.run)), MOST_ADVISED)
        except ChimbukoError as error:
            problems.append(f"no advice: {error}")
    if as_json:
        known = {"run": result.run} if result.summary is None else msgspec.to_builtins(result.summary)
        more = {"advice": [as_advice(one) for one in advices]} if advise else {}
        _print_json(msgspec.json.encode({**known, "problems": problems, **more}))
        return
    lines = problem_lines(result.problems) if result.summary is None else summary_lines(result.summary)
    lines += problems[len(result.problems) :]
    write_error("".join(f"{visible(line)}\n" for line in lines))
    for one in advices:
        print_advice(one, Output())


def _print_json(encoded: bytes) -> None:
    """Print JSON at once: what cannot be written must not become the exit code of the program."""
    try:
        with open(1, "wb", closefd=False) as output:
            output.write(escaped_json(msgspec.json.format(encoded).decode()).encode() + b"\n")
    except OSError as error:
        say(f"standard output: cannot be written ({error.strerror}); the summary is lost")
