"""What runs beside a real TAU have found and lost, and whether that is what is required. No I/O."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

LEAST_FOUND = 0.9
MOST_FLAGS_PER_DELAY = 8.0
UNNAMED = "rows of a timer not named yet"
ALONE = "without us"


@dataclass(frozen=True)
class Variant:
    """One way to run the application; the same in each round."""

    transport: str
    """Empty without the analysis."""
    is_killed: bool = False
    """Whether agent and readers are killed with -9, at random moments."""
    is_recorded: bool = False
    """Whether our recorder is there in place of TAU."""

    @property
    def name(self) -> str:
        recorder = ", our recorder" if self.is_recorded else ""
        return (self.transport or ALONE) + recorder + (", killed" if self.is_killed else "")


@dataclass(frozen=True)
class Outcome:
    """What one run has come to."""

    variant: Variant
    wall_s: float
    """Of the application, from its start to its end."""
    exit_code: int | None
    """Of the application; None where it hung, and was killed."""
    delays: int = 0
    found: int = 0
    flags: int = 0
    steps: int = 0
    lost_steps: int = 0
    losses: tuple[tuple[str, int], ...] = ()
    """As the summary names them."""
    kills: int = 0


@dataclass(frozen=True)
class Total:
    """All rounds of one variant."""

    variant: str
    runs: int
    failed: int
    """Runs in which the application died, or hung."""
    delays: int
    found: int
    flags_per_delay: float
    steps: int
    lost_steps: int
    unnamed_rows: int
    losses: dict[str, int]
    """All that the summaries name, of rows, calls, steps and streams."""
    kills: int
    wall_s: tuple[float, float, float] | None
    """Median, shortest and longest of the application, of runs in which it did not hang."""


def losses_of(summary: dict[str, Any]) -> tuple[tuple[str, int], ...]:
    """Each kind of loss that a run's summary, read from its JSON, knows of."""
    losses: dict[str, int] = dict(summary.get("losses", {}))
    losses["anomalies that were counted only"] = summary.get("dropped", 0)
    losses["streams without an end"] = len(summary.get("broken_streams", []))
    return tuple((kind, number) for kind, number in losses.items() if number)


def total(outcomes: Sequence[Outcome]) -> Total:
    """What the rounds of one variant come to."""
    losses: Counter[str] = Counter()
    for outcome in outcomes:
        losses.update(dict(outcome.losses))
    delays = sum(outcome.delays for outcome in outcomes)
    walls = [outcome.wall_s for outcome in outcomes if outcome.exit_code is not None]
    return Total(
        variant=outcomes[0].variant.name,
        runs=len(outcomes),
        failed=sum(outcome.exit_code != 0 for outcome in outcomes),
        delays=delays,
        found=sum(outcome.found for outcome in outcomes),
        flags_per_delay=sum(outcome.flags for outcome in outcomes) / max(delays, 1),
        steps=sum(outcome.steps for outcome in outcomes),
        lost_steps=sum(outcome.lost_steps for outcome in outcomes),
        unnamed_rows=losses[UNNAMED],
        losses=dict(losses),
        kills=sum(outcome.kills for outcome in outcomes),
        wall_s=(statistics.median(walls), min(walls), max(walls)) if walls else None,
    )


def missed_aims(variant: Variant, result: Total) -> list[str]:
    """What is required of a variant and was not reached, a line each.

    Whatever happens, the application ends well. Undisturbed, nothing is lost and the delays are found; with
    followed files that also holds where agent and readers are killed. Over SST a reader that was killed
    leaves a gap.
    """
    missed = []
    if result.failed:
        missed.append(f"the application died or hung in {result.failed} of {result.runs} runs")
    if variant.transport and (not variant.is_killed or variant.transport == "files"):
        if not result.steps:
            missed.append("no step was seen")
        if result.lost_steps:
            missed.append(f"{result.lost_steps:,} steps were lost")
        missed += [f"{number:,} {kind}" for kind, number in result.losses.items()]
        if result.found < LEAST_FOUND * result.delays:
            missed.append(f"only {result.found} of {result.delays} delays were found")
        if result.flags_per_delay > MOST_FLAGS_PER_DELAY:
            missed.append(f"{result.flags_per_delay:.1f} flags per delay")
    return [f"{variant.name}: {line}" for line in missed]


def report(totals: Iterable[Total], missed: list[str]) -> dict[str, Any]:
    """All of it, for JSON."""
    return {"variants": [asdict(result) for result in totals], "missed": missed}


def rows(totals: Iterable[Total]) -> list[tuple[str, ...]]:
    """A line of the table for each variant, under ``HEADS``."""
    return [_row(result) for result in totals]


def _row(result: Total) -> tuple[str, ...]:
    is_watched = result.variant != ALONE
    found = f"{result.found} of {result.delays}", f"{result.flags_per_delay:.1f}"
    seen = tuple(f"{number:,}" for number in (result.steps, result.lost_steps, result.unnamed_rows))
    others = (f"{number:,} {kind}" for kind, number in result.losses.items() if kind != UNNAMED)
    return (
        result.variant,
        *((*found, *seen) if is_watched else [""] * 5),
        "; ".join(others),
        f"{result.kills or ''}",
        "" if result.wall_s is None else "{:.1f} ({:.1f}-{:.1f})".format(*result.wall_s),
        f"{result.failed or ''}",
    )


HEADS = (
    *("variant", "delays found", "flags per delay", "steps", "steps lost", "rows without a name"),
    *("other losses", "kills", "application, s", "died or hung"),
)
