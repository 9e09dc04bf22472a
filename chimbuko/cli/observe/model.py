"""``chimbuko model``: performance models of a workflow, their predictions, and what follows from these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from chimbuko.cli.observe import agents, pipeline
from chimbuko.cli.shared.table import Column, Output, print_json
from chimbuko.core.errors import ConfigError
from chimbuko.core.units import format_change, format_share
from chimbuko.plan.fitting import Fit, HeldOut, check_unit, fit, sampling_plan, try_on
from chimbuko.plan.hypotheses import Agreement, agreement
from chimbuko.plan.plots import plot_agreement, plot_fits, plot_split
from chimbuko.plan.prediction import EFFICIENT, Advice, Prediction, advise, interval, predict
from chimbuko.plan.reading import (
    WorkflowTable,
    parse_choices,
    parse_measured_runs,
    parse_points,
    parse_table,
    read_text,
    workflow_of,
)
from chimbuko.plan.workflow import Workflow, parse_placement

Interval = tuple[float, float] | None


def print_fits(fits: Sequence[Fit], held_out: dict[str, HeldOut]) -> None:
    """Print models with how well they predict."""
    output = Output()
    columns = [Column("PART"), Column("POINTS", True), Column("ERROR", True), Column("R²", True)]
    columns += [Column("WORST", True), Column("AT THE LAST POINT", True), Column("SECONDS")]
    output.table(columns, [[*_fit_cells(one), str(one.model.form)] for one in fits])
    for one in fits:
        for name in one.idle_parameters:
            output.line(f"{one.measured.part} does not depend on {name}")
    if held_out:
        output.heading("Points that were held out")
        columns = [Column("PART"), Column("POINTS", True), Column("R²", True), Column("WORST", True)]
        output.table(columns, [[part, *_agreement_cells(one.agreement)] for part, one in held_out.items()])
        _print_clamps(output, held_out.values())


def print_predictions(
    predictions: Sequence[Prediction],
    intervals: Sequence[Interval],
    measured_s: Sequence[float | None],
    found: Agreement | None,
) -> None:
    """Print a line for each placement, with the measured time if there is one, and how well both agree."""
    output = Output()
    columns = [Column("PLACEMENT"), Column("APPROACH"), Column("S/STEP", True), Column("SECONDS", True)]
    columns += [Column("95 %", True), Column("WAITS FOR")]
    has_measured = any(one is not None for one in measured_s)
    columns += [Column("MEASURED", True), Column("ERROR", True)] if has_measured else []
    rows = []
    for one, spread, measured in zip(predictions, intervals, measured_s, strict=True):
        cells = [*_prediction_cells(one), interval_text(spread), one.bound_by]
        if measured is not None:
            cells += [f"{measured:.5g}", format_change(one.total_s / measured - 1)]
        elif has_measured:
            cells += ["", ""]
        rows.append(cells)
    output.table(columns, rows)
    if found is not None:
        r_squared = "not defined" if found.r_squared is None else f"{found.r_squared:.4f}"
        worst = format_share(found.max_relative_error, ".1f")
        output.line(f"{found.points} runs: R² {r_squared}, greatest relative error {worst}")
    _print_clamps(output, predictions)


def print_advice(advice: Advice, limit: int, parameter: str) -> None:
    """Print the recommendation, and the best of all placements that were compared."""
    output, best = Output(), advice.best
    output.line(f"best of {len(advice.ranked)}: {best.placement} ({best.approach})", "bold")
    beside = next(one for one in advice.ranked if not one.placement.groups)
    times = f"{best.step_s:.5g} s per step, {best.total_s:.5g} s in all ({interval_text(advice.interval_s)})"
    output.line(f"{times}; {beside.total_s / best.total_s:.2f} times as fast as all inside the application")
    output.line(f"bare application on all {parameter}: {best.bare_step_s:.5g} s per step")
    output.heading("Sides of it")
    columns = [
        Column("SIDE"),
        Column("S/STEP", True),
        Column("BUSY", True),
        Column("PARALLEL EFFICIENCY", True),
    ]
    slowest_s = max(side.step_s for side in (best.application, *best.groups))
    sides = [
        [
            side.name,
            f"{side.step_s:.5g}",
            format_share(side.step_s / slowest_s if slowest_s else 0.0, ".1f"),
            format_share(side.efficiency, ".1f"),
        ]
        for side in (best.application, *best.groups)
    ]
    output.table(columns, sides)
    if best.inefficient:
        words = " and ".join(best.inefficient)
        output.line(f"below {format_share(EFFICIENT)} parallel efficiency, and still the fastest: {words}")
    output.heading("Placements, the best first")
    shown = [*advice.ranked[:limit]]
    shown += [] if beside in shown else [beside]
    columns = [Column("PLACEMENT"), Column("APPROACH"), Column("S/STEP", True), Column("SECONDS", True)]
    rows = [[*_prediction_cells(one), f"{one.total_s / advice.least_s:.3f}", one.bound_by] for one in shown]
    output.table([*columns, Column("TO THE BEST", True), Column("WAITS FOR")], rows)
    _print_clamps(output, shown)


def as_fit(one: Fit, held_out: HeldOut | None) -> dict[str, Any]:
    """Return a fit for JSON."""
    points = [dict(zip(one.measured.parameters, row, strict=True)) for row in one.measured.points.tolist()]
    return {
        "part": one.measured.part,
        "model": str(one.model.form),
        "terms": [asdict(term) for term in one.model.form.terms],
        "ranges": dict(one.model.ranges),
        "error": one.error,
        "agreement": asdict(one.agreement),
        "held_out": held_out and {**asdict(held_out.agreement), "clamps": held_out.clamps},
        "does_not_depend_on": list(one.idle_parameters),
        "points": [
            {
                "at": point,
                "measured_s": measured_s,
                "predicted_s": one.model.at(point).time_s,
                "interval_s": one.model.interval_s(point),
            }
            for point, measured_s in zip(points, one.measured.time_s.tolist(), strict=True)
        ],
    }


def as_prediction(one: Prediction, interval: Interval, measured_s: float | None = None) -> dict[str, Any]:
    """Return a prediction for JSON; ``interval_s`` is null where no model was fitted to measurements."""
    fields = asdict(one)
    fields.update(placement=str(one.placement), bound_by=one.bound_by, interval_s=interval)
    return fields if measured_s is None else {**fields, "measured_s": measured_s}


def interval_text(interval: Interval) -> str:
    """Two numbers, or that there is none."""
    return "no interval" if interval is None else f"{interval[0]:.4g} to {interval[1]:.4g}"


def _fit_cells(one: Fit) -> list[str]:
    last = dict(zip(one.measured.parameters, one.measured.points[-1].tolist(), strict=True))
    points, r_squared, worst = _agreement_cells(one.agreement)
    time_s = f"{one.model.at(last).time_s:.4g} ({interval_text(one.model.interval_s(last))})"
    return [one.measured.part, points, format_share(one.error, ".1f"), r_squared, worst, time_s]


def _agreement_cells(found: Agreement) -> list[str]:
    r_squared = "" if found.r_squared is None else f"{found.r_squared:.4f}"
    return [str(found.points), r_squared, format_share(found.max_relative_error, ".1f")]


def _prediction_cells(one: Prediction) -> list[str]:
    return [str(one.placement), one.approach, f"{one.step_s:.5g}", f"{one.total_s:.5g}"]


def _print_clamps(output: Output, found: Iterable[Prediction | HeldOut]) -> None:
    clamps = dict.fromkeys(clamp for one in found for clamp in one.clamps)
    if clamps:
        output.heading("Outside of what the models stand for")
        for clamp in clamps:
            output.line(clamp)


_FILE = click.Path(path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON, with times in seconds.")
PLOT = click.option("--plot", type=_FILE, metavar="FILE", help="Write a picture, as PNG; needs matplotlib.")
WORKFLOW = click.argument("description", metavar="WORKFLOW", type=_FILE)
POINTS = click.option(
    "--points", type=_FILE, metavar="CSV", help="Measured times of the parts without a model in WORKFLOW."
)


@click.group("model", short_help="Predict where in-situ tasks run best, from few measurements.")
def command() -> None:
    """Fit performance models to measured times, and predict where in-situ tasks should run.

    A workflow is an application with tasks that run every so many steps of it, inside of it or on resources
    of their own. docs/howto/insitu.md has the files, with worked examples.

    \b
    Examples:
      chimbuko model points ranks=48,96,192,384,768 > points.csv
      chimbuko model fit points.csv --plot models.png
      chimbuko model predict workflow.toml --points points.csv --placement 'images=2x48'
      chimbuko model advise workflow.toml --points points.csv
      chimbuko model agents chimbuko-runs/job-77
      chimbuko model pipeline --ranks 100000
    """


@command.command("points", short_help="List the points to measure: 5, 11 or 17.")
@click.argument("values", nargs=-1, required=True, metavar="PARAMETER=VALUE,VALUE,...")
def points(values: tuple[str, ...]) -> None:
    """Write a CSV of the points that a model needs, to be filled in: 6h - 1 for h parameters.

    Give of each parameter at least five values that can be measured. Most points have the least value of all
    parameters but one, where they cost least.

    \b
    Example:
      chimbuko model points ranks=48,96,192,384,768 threads=1,2,4,8,16 > points.csv
    """
    plan = sampling_plan(parse_choices(values))
    click.echo(",".join([*plan[0], "time_s"]))
    for point in plan:
        click.echo(",".join([*(f"{value:.15g}" for value in point.values()), ""]))


@command.command("fit", short_help="Fit models to measured times.")
@click.argument("csv", type=_FILE)
@click.option("--held-out", type=_FILE, metavar="CSV", help="Further points, for the models to be tried on.")
@JSON
@PLOT
def fit_models(csv: Path, held_out: Path | None, as_json: bool, plot: Path | None) -> None:
    """Fit a model to each part in CSV: columns part, parameters such as ranks, and time_s.

    The form is the one that predicts each point best from all others; ERROR is the mean of its errors there,
    R² and WORST are of the points that it is fitted to, or with --held-out of others.

    \b
    Examples:
      chimbuko model fit points.csv
      chimbuko model fit points.csv --held-out larger.csv --json
    """
    fits = _fits(csv)
    tried = {} if held_out is None else _tried(fits, held_out)
    if plot is not None:
        plot_fits(list(fits.values()), plot)
    if as_json:
        print_json([as_fit(one, tried.get(part)) for part, one in fits.items()])
    else:
        print_fits(list(fits.values()), tried)


@command.command("predict", short_help="Predict how long a workflow takes as it is placed.")
@WORKFLOW
@POINTS
@click.option(
    "--placement",
    "placements",
    multiple=True,
    metavar="TEXT",
    help="Placement of the tasks, such as 'images=2x48 filter=sync'. Repeatable.",
)
@click.option(
    "--measured", type=_FILE, metavar="CSV", help="CSV of runs to compare with: columns placement and time_s."
)
@JSON
@PLOT
def predict_runs(
    description: Path,
    points: Path | None,
    placements: tuple[str, ...],
    measured: Path | None,
    as_json: bool,
    plot: Path | None,
) -> None:
    """Predict how long a workflow takes, for each placement; without one with all tasks inside.

    \b
    Examples:
      chimbuko model predict workflow.toml --placement all=sync --placement 'images=48'
      chimbuko model predict workflow.toml --points points.csv --measured runs.csv --plot agreement.png
    """
    workflow, _ = _workflow(description, points)
    runs = [] if measured is None else parse_measured_runs(read_text(measured), str(measured))
    if plot is not None and not runs:
        raise ConfigError("--plot shows predictions beside runs: give these with --measured")
    asked: list[tuple[str, float | None]] = [(text, None) for text in placements]
    asked = [*asked, *runs] or [("all=sync", None)]
    parsed = [parse_placement(text, workflow) for text, _ in asked]
    predictions = [predict(workflow, placement) for placement in parsed]
    intervals = [interval(workflow, placement) for placement in parsed]
    measured_s = [time_s for _, time_s in asked]
    predicted_s = [one.total_s for one in predictions[len(placements) :]] if runs else []
    for (text, time_s), expected_s in zip(runs, predicted_s, strict=True):
        check_unit(f"{measured}: '{text}'", time_s, expected_s)
    found = agreement([time_s for _, time_s in runs], predicted_s) if runs else None
    if plot is not None:
        plot_agreement([time_s for _, time_s in runs], predicted_s, plot)
    if as_json:
        rows = zip(predictions, intervals, measured_s, strict=True)
        print_json({"predictions": [as_prediction(*row) for row in rows], "agreement": found})
        return
    print_predictions(predictions, intervals, measured_s, found)


@command.command("advise", short_help="Recommend where tasks run, and on how much.")
@WORKFLOW
@POINTS
@click.option(
    "--limit", type=click.IntRange(min=1), default=10, show_default=True, help="Placements to list."
)
@JSON
@PLOT
def advise_placement(
    description: Path, points: Path | None, limit: int, as_json: bool, plot: Path | None
) -> None:
    """Predict all placements of a workflow's tasks, and recommend one.

    Of those that take at most 2 % longer than the fastest, it is the one with the fewest resources for tasks;
    sides with at least 80 % parallel efficiency come first.

    \b
    Examples:
      chimbuko model advise workflow.toml
      chimbuko model advise workflow.toml --points points.csv --plot split.png
      chimbuko model advise workflow.toml --json | jq '.best.placement'
    """
    workflow, table = _workflow(description, points)
    found = advise(workflow, table.group_sizes)
    if plot is not None:
        plot_split(found, workflow, plot)
    if as_json:
        ranked = [as_prediction(one, interval(workflow, one.placement)) for one in found.ranked[:limit]]
        print_json({"compared": len(found.ranked), "best": ranked[0], "ranked": ranked})
    else:
        print_advice(found, limit, workflow.parameter)


command.add_command(agents.command)
command.add_command(pipeline.command)


def _fits(csv: Path) -> dict[str, Fit]:
    return {part: fit(one) for part, one in parse_points(read_text(csv), str(csv)).items()}


def _tried(fits: dict[str, Fit], held_out: Path) -> dict[str, HeldOut]:
    """Return how well models predict points that they were not fitted to."""
    tried = {}
    for part, one in parse_points(read_text(held_out), str(held_out)).items():
        if part not in fits:
            raise ConfigError(f"{held_out}: no model of '{part}'; there are {', '.join(fits)}")
        tried[part] = try_on(fits[part], one)
    return tried


def _workflow(description: Path, points: Path | None) -> tuple[Workflow, WorkflowTable]:
    table = parse_table(read_text(description), str(description))
    fitted = {} if points is None else {part: one.model for part, one in _fits(points).items()}
    return workflow_of(table, fitted, str(description)), table
