"""What became of programs whose readers were killed, stopped, or late, and the tables of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from benchmarks.measuring import table
from chimbuko.capture.trace.discovery import Transport

DISTURBANCES = {
    "none": "left alone",
    "kill": "killed with -9",
    "stop": "stopped for 0-3 s, the last for ever",
    "agent": "stopped for ever with their agent",
    "late": "0-3 s late",
}


@dataclass(frozen=True)
class Variant:
    """One of the transports."""

    name: str
    transport: Transport
    has_shield: bool
    kills_per_program: int
    """Over SST three processes may join a stream, and no more."""


VARIANTS = (
    Variant("files", Transport.FILES, False, 5),
    Variant("sst, shield", Transport.SST, True, 2),
    Variant("sst, no shield", Transport.SST, False, 2),
)
STOPS_PER_PROGRAM = 5
"""The last one for ever."""


@dataclass
class Trial:
    """What one program has been through, and what became of it."""

    rounds: int = 0
    while_joining: int = 0
    """Of the rounds, those before the reader had read a step."""
    died: int = 0
    hung: int = 0
    hung_closing: int = 0
    steps_ms: list[float] = field(default_factory=list)
    closing_ms: float | None = None
    written: int = 0
    lost: int = 0
    twice: int = 0
    unknown: int = 0
    """Steps analysed that were not written."""
    lags_ms: list[float] = field(default_factory=list)
    program_cpu_s: float = 0.0
    program_cpu_steps: int = 0
    """Steps of programs that lived to tell."""
    joins: int = 0


@dataclass
class Result:
    """All trials of a variant under one disturbance."""

    variant: str
    disturbance: str
    trials: list[Trial]
    readers_cpu_s: float
    guard_cpu_s: float
    shielded: int
    """Programs that had the shield at work."""

    def total(self, name: str) -> int:
        """Of all trials."""
        return sum(getattr(trial, name) for trial in self.trials)


APPLICATION_HEADS = (
    *("readers", "transport", "rounds", "of them joining", "programs", "died", "hung", "steps"),
    *("step ms, median", "p99", "worst", "Close ms, median", "worst"),
)
ANALYSIS_HEADS = (
    *("readers", "transport", "steps", "lost", "twice", "lag ms, median", "p95", "worst"),
    *("CPU ms a step, program", "readers", "guard"),
)


def application_row(result: Result) -> tuple[str, ...]:
    """What the program has paid."""
    steps_ms = [ms for trial in result.trials for ms in trial.steps_ms]
    closing_ms = [trial.closing_ms for trial in result.trials if trial.closing_ms is not None]
    return (
        DISTURBANCES[result.disturbance],
        result.variant,
        *(f"{number:,}" for number in (result.total("rounds"), result.total("while_joining"))),
        *(f"{number:,}" for number in (len(result.trials), result.total("died"), result.total("hung"))),
        f"{len(steps_ms):,}",
        *_quantiles(steps_ms, 0.5, 0.99, 1.0),
        *_quantiles(closing_ms, 0.5, 1.0),
    )


def analysis_row(result: Result) -> tuple[str, ...]:
    """What the analysis has got, and what that cost."""
    lags = [ms for trial in result.trials for ms in trial.lags_ms]
    analysed = result.total("written") - result.total("lost")
    program_ms = 1e3 * sum(trial.program_cpu_s for trial in result.trials)
    return (
        DISTURBANCES[result.disturbance],
        result.variant,
        *(f"{result.total(name):,}" for name in ("written", "lost", "twice")),
        *_quantiles(lags, 0.5, 0.95, 1.0),
        f"{program_ms / max(result.total('program_cpu_steps'), 1):.2f}",
        f"{1e3 * result.readers_cpu_s / max(analysed, 1):.2f}",
        f"{1e3 * result.guard_cpu_s / max(analysed, 1):.3f}",
    )


def _quantiles(values: list[float], *shares: float) -> tuple[str, ...]:
    if not values:
        return ("",) * len(shares)
    return tuple(f"{value:,.1f}" for value in np.quantile(values, shares))


def text(results: list[Result]) -> str:
    """Two tables."""
    return "\n".join(
        (
            "What the program has paid",
            table(APPLICATION_HEADS, [application_row(result) for result in results]),
            "\nWhat the analysis has got",
            table(ANALYSIS_HEADS, [analysis_row(result) for result in results]),
        )
    )


def as_json(results: list[Result]) -> list[dict[str, Any]]:
    """All that was measured."""
    return [asdict(result) for result in results]
