"""The commands that are measured: runs over made-up traces, beside replays of such, and with little to do."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.generate import Shape, SyntheticTrace, write_trace

ROWS = 4_000_000
SPARSE = Shape(means_us=(2_500.0, 50_000.0))
"""100 rows take a second, which is an epoch."""
LIVE_ROWS = 5_000
"""Per step, which takes a second."""
LIVE_STEPS = 30, 60
"""The first twenty of a stream cost more: what they teach is reported at once."""
EPOCHS = 400
RANKS_ROWS, RANKS_STEPS = 100_000, 10


@dataclass(frozen=True)
class Case:
    """A command to measure.

    In it ``{folder}`` stands for a new folder, all that is left in which counts, and ``{began}`` for a file
    that a program makes to say that it runs now.
    """

    name: str
    command: str
    """For the shell."""
    work: float = 0.0
    """How much of it there is, in ``unit``; 0 where that is no matter."""
    unit: str = ""
    """events, epochs or seconds."""
    base: str = ""
    """Name of a case with less work: what each unit of work costs follows from the difference."""
    application: tuple[str, ...] = ()
    """Names of processes that are not ours, and do not count."""


def offline(folder: Path) -> list[Case]:
    """``chimbuko run`` with next to nothing to do, and on recorded traces of one rank and of several."""
    cases = [
        Case("run -- true", f"{_run()} -- touch {{began}}"),
        Case("one step", _trace(folder, "one-step", 10_000, 1), 10_000, "events"),
        Case("100,000 a step", _trace(folder, "large", 100_000, ROWS // 100_000), ROWS, "events", "one step"),
        Case("10,000 a step", _trace(folder, "small", 10_000, ROWS // 10_000), ROWS, "events", "one step"),
        Case("one epoch", _trace(folder, "one-epoch", 100, 1, SPARSE), 1, "epochs"),
        Case(
            f"{EPOCHS} epochs", _trace(folder, "epochs", 100, EPOCHS, SPARSE), EPOCHS, "epochs", "one epoch"
        ),
    ]
    for ranks in (1, 4):
        command = _trace(folder, f"ranks-{ranks}", RANKS_ROWS, RANKS_STEPS, ranks=ranks)
        cases.append(Case(f"{ranks} times {RANKS_ROWS * RANKS_STEPS:,}", command))
    return cases


def live(folder: Path) -> list[Case]:
    """``chimbuko run`` beside a program of which each rank writes 5,000 rows a second, 30 s and 60 s long."""
    cases = []
    for ranks in (4, 40):
        names = [f"{ranks} live ranks, {steps} s" for steps in LIVE_STEPS]
        for name, steps, base in zip(names, LIVE_STEPS, ("", names[0]), strict=True):
            where = folder / f"live-{ranks}-{steps}"
            _write(where, LIVE_ROWS, steps, Shape(), ranks, outliers=0.0)
            command = f"{_run()} --transport files --replay '{where}/*.bp'"
            cases.append(Case(name, command, steps, "seconds", base, ("chimbuko replay", "python -c")))
    return cases


def compiling(_: Path) -> list[Case]:
    """All kernels, compiled into an empty cache."""
    warmup = f"{shlex.quote(sys.executable)} -m chimbuko warmup"
    return [Case("compile kernels", f"CHIMBUKO_KERNELS={{folder}} {warmup}")]


PARTS = {"offline": offline, "live": live, "compiling": compiling}


def _run() -> str:
    return f"{shlex.quote(sys.executable)} -m chimbuko run --no-dashboard -o {{folder}}"


def _trace(
    folder: Path, name: str, rows_per_step: int, steps: int, shape: Shape | None = None, ranks: int = 1
) -> str:
    _write(folder / name, rows_per_step, steps, shape or Shape(), ranks)
    return f"{_run()} --trace '{folder / name}/*.bp'"


def _write(
    folder: Path, rows_per_step: int, steps: int, shape: Shape, ranks: int, outliers: float | None = None
) -> None:
    folder.mkdir()
    share = {} if outliers is None else {"outlier_share": outliers}
    for rank in range(ranks):
        trace = SyntheticTrace(rows_per_step, seed=1 + rank, shape=shape, rank=rank, **share)
        write_trace(folder / f"tau-metrics-app-{rank}.bp", trace, steps)
