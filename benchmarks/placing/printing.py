"""Runs that were measured, beside what is predicted of them, as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.measuring import table
from benchmarks.placing.judging import (
    LEAST_APART,
    LEAST_R_SQUARED,
    MOST_ADDED_ERROR,
    MOST_ERROR,
    MOST_REGRET,
    WHOLE,
    Model,
    Run,
    Verdict,
    fitted,
    judge,
    typical,
)
from chimbuko.core.units import format_share, number_of

FILE = Path(__file__).with_name("measured.json")
"""Written by ``python -m benchmarks.placing --keep``."""


@dataclass(frozen=True)
class Series:
    """All runs of one measurement."""

    fitted: list[Run]
    held_out: list[Run]


def kept() -> Series:
    """What was measured last."""
    return msgspec.json.decode(FILE.read_bytes(), type=Series)


def failures_of(series: Series) -> list[str]:
    """What is required and not so."""
    model, runs = fitted(series.fitted), typical(series.held_out)
    failures = judge(model, runs).failures
    if not judge(model, runs, has_analysis=False).failures:
        failures.append("a model without the analysis passes, so the runs show nothing")
    return failures


def as_documented(series: Series) -> str:
    """What was measured and required, and each configuration."""
    model, runs = fitted(series.fitted), typical(series.held_out)
    verdict, without = judge(model, runs), judge(model, runs, has_analysis=False)
    costs, slower = model.costs, model.slowdown
    each, splits = len(series.held_out) // len(runs), {run.split for run in runs}
    lines = [
        f"{len(series.fitted)} runs to which the model is fitted, and {len(series.held_out)} runs of "
        f"{len(runs)} configurations that it predicts, {number_of(each, 'runs')} of each, in "
        f"{len(splits)} splits, {len(splits - set(WHOLE))} of them with a quota.",
        f"The analysis takes {1e3 * costs.second:.1f} ms of CPU time a second, {1e3 * costs.step:.2f} ms a "
        f"step of a stream, and {1e6 * costs.row:.3f} µs a row; each of its",
        f"seconds adds to the application's {slower.inside:.2f} s on the same core, {slower.shared:.2f} s on "
        f"all cores, and {slower.own:.2f} s on others.",
        "",
        table(("of these configurations", "measured", "required"), _judged(verdict, without)),
        "",
        table(HEADS, [_row(model, run) for run in sorted(runs, key=_load)]),
    ]
    failures = failures_of(series)
    lines += ["", *(f"- Not as required: {failure}" for failure in failures)] if failures else []
    return "\n".join(lines)


HEADS = ("rows", "per trace step", "split", "alone, s", "measured, s", "predicted, s", "error", "analysis")


def _judged(verdict: Verdict, without: Verdict) -> list[tuple[str, str, str]]:
    added, regrets = verdict.added_errors, verdict.regrets
    within = sum(error <= MOST_ADDED_ERROR for error in added)
    good = sum(regret <= MOST_REGRET for regret in regrets)
    most_added, most_regret = format_share(MOST_ADDED_ERROR), format_share(MOST_REGRET)
    regret = format_share(max(regrets), ".1f")
    return [
        (
            "greatest error of the seconds of a step",
            format_share(verdict.max_error, ".1f"),
            format_share(MOST_ERROR),
        ),
        ("R² of them", f"{verdict.r_squared:.3f}", f"{LEAST_R_SQUARED}"),
        (
            "the same of a model that leaves the analysis out",
            f"{format_share(without.max_error, '.1f')}, {without.r_squared:.3f}",
            "fails",
        ),
        (
            f"error of the added seconds, in {len(added)} where they are 10 % or more",
            f"{within} within {most_added}, at most {format_share(max(added, default=0.0))}",
            most_added,
        ),
        (
            "worst split of a load above its best one",
            f"{format_share(verdict.least_apart)} to {format_share(verdict.most_apart)}",
            format_share(LEAST_APART),
        ),
        (
            "recommended split above the best one that keeps up",
            f"{good} of {len(regrets)} loads within {most_regret}, at most {regret}",
            most_regret,
        ),
        (
            "analysis that fell behind, and was predicted to",
            f"{verdict.behind}, {verdict.behind_predicted}, both {verdict.behind_both}",
            "",
        ),
    ]


def _row(model: Model, run: Run) -> tuple[str, ...]:
    found = model.predict(run)
    was, says = run.kept_up, found.keeps_up
    behind = "" if was and says else "falls behind" if not was and not says else "falls behind, unpredicted"
    return (
        f"{run.rows:,}",
        str(run.every),
        run.split,
        f"{model.alone_s(run):.4f}",
        f"{run.step_s:.4f}",
        f"{found.step_s:.4f}",
        f"{100 * (found.step_s / run.step_s - 1):+.1f} %",
        "keeps up, unpredicted" if was and not says else behind,
    )


def _load(run: Run) -> tuple[int, int, Sequence[str]]:
    return run.rows, run.every, run.split
