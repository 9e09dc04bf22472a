"""What ``chimbuko model`` prints: tables for people, and values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from chimbuko.cli.output.table import Column, Output
from chimbuko.core.units import format_change, format_share
from chimbuko.plan.insitu.advice import Advice
from chimbuko.plan.insitu.fitting import Fit, HeldOut
from chimbuko.plan.insitu.prediction import Prediction
from chimbuko.plan.insitu.quality import Agreement

Interval = tuple[float, float] | None


def print_fits(fits: Sequence[Fit], held_out: dict[str, HeldOut]) -> None:
    """Models with how well they predict."""
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
    """One line for each placement, beside what was measured where it was, and how well that agrees."""
    output = Output()
    columns = [Column("PLACEMENT"), Column("APPROACH"), Column("S/STEP", True), Column("SECONDS", True)]
    columns += [Column("95 %", True), Column("WAITS FOR")]
    has_measured = any(one is not None for one in measured_s)
    columns += [Column("MEASURED", True), Column("ERROR", True)] if has_measured else []
    rows = []
    for one, interval, measured in zip(predictions, intervals, measured_s, strict=True):
        cells = [*_prediction_cells(one), interval_text(interval), one.bound_by]
        if measured is not None:
            cells += [f"{measured:.5g}", format_change(one.total_s / measured - 1)]
        rows.append(cells)
    output.table(columns, rows)
    if found is not None:
        r_squared = "not defined" if found.r_squared is None else f"{found.r_squared:.4f}"
        worst = format_share(found.max_relative_error, ".1f")
        output.line(f"{found.points} runs: R² {r_squared}, greatest relative error {worst}")
    _print_clamps(output, predictions)


def print_advice(advice: Advice, limit: int, parameter: str) -> None:
    """The recommendation, and the best of all that was compared."""
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
    output.heading("Placements, the best first")
    shown = [*advice.ranked[:limit]]
    shown += [] if beside in shown else [beside]
    columns = [Column("PLACEMENT"), Column("APPROACH"), Column("S/STEP", True), Column("SECONDS", True)]
    rows = [[*_prediction_cells(one), f"{one.total_s / best.total_s:.3f}", one.bound_by] for one in shown]
    output.table([*columns, Column("TO THE BEST", True), Column("WAITS FOR")], rows)
    _print_clamps(output, shown)


def as_fit(one: Fit, held_out: HeldOut | None) -> dict[str, Any]:
    """For JSON."""
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
    """For JSON; ``interval_s`` is null where no model was fitted to measurements."""
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
