"""Overhead of tracing and analysis: a program runs alone, traced and analysed, in turns.

The times give means, and what was added, with intervals.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from chimbuko.capture.follow.space import MEMORY, NEEDED_BYTES, choose_folder
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.tausettings import CLAIMS_FOLDER, application_settings
from chimbuko.core.errors import ConfigError
from chimbuko.core.statistics.student import two_sided_p, two_sided_t
from chimbuko.plan.overheadswitch import PLAINLY, without_tau
from chimbuko.runtime.process.usercommand import UserCommand, check_command

LEVEL = 0.95
LEAST_ROUNDS = 10
"""Number of rounds below which chance alone makes more difference than most programs' overhead."""


@dataclass(frozen=True)
class Spread:
    """Times of one kind of execution."""

    mean_s: float
    deviation_s: float
    """Standard deviation."""
    interval_s: tuple[float, float]
    """Interval of the mean, 95 %."""


@dataclass(frozen=True)
class Added:
    """Time that one kind of run takes beyond another, as a share of the time of the application alone.

    The sign is that of the paper's table; its equation has the opposite one.
    """

    share: float
    interval: tuple[float, float]
    """Interval of the share, 95 %."""
    p: float
    """Probability, by a t-test on the differences of each round, that chance alone shows as much."""


@dataclass(frozen=True)
class Overhead:
    """Overhead of tracing and analysis for one program."""

    rounds: int
    application: Spread
    traced: Spread
    analysed: Spread
    tracing: Added
    """Time added by tracing to the application alone."""
    both: Added
    """Time added by tracing and analysis to the application alone."""
    analysis: Added
    """Time added by the analysis to the traced application: the analysis' own share."""


def overhead(
    application_s: Sequence[float], traced_s: Sequence[float], analysed_s: Sequence[float]
) -> Overhead:
    """Compute the overhead from times of two rounds or more, each with one execution of each kind.

    A round's executions are compared with each other, so what changes from round to round falls out.
    """
    mean_s = float(np.mean(application_s))
    return Overhead(
        len(application_s),
        _spread(application_s),
        _spread(traced_s),
        _spread(analysed_s),
        _added(application_s, traced_s, mean_s),
        _added(application_s, analysed_s, mean_s),
        _added(traced_s, analysed_s, mean_s),
    )


def _spread(times_s: Sequence[float]) -> Spread:
    mean_s, margin_s = float(np.mean(times_s)), _margin(np.asarray(times_s))
    return Spread(mean_s, float(np.std(times_s, ddof=1)), (mean_s - margin_s, mean_s + margin_s))


def _added(base_s: Sequence[float], more_s: Sequence[float], application_s: float) -> Added:
    differences = (np.asarray(more_s) - np.asarray(base_s)) / application_s
    share, margin = float(differences.mean()), _margin(differences)
    error = float(differences.std(ddof=1)) / len(differences) ** 0.5
    degrees = np.array(len(differences) - 1.0)
    p = float(two_sided_p(np.array(share / error), degrees)) if error else float(share == 0.0)
    return Added(share, (share - margin, share + margin), p)


def _margin(values: np.ndarray) -> float:
    """Half of the interval of the mean, by Student's t."""
    quantile = float(two_sided_t(1.0 - LEVEL, np.array(len(values) - 1.0)))
    return quantile * float(values.std(ddof=1)) / float(len(values) ** 0.5)


KINDS = ("application", "traced", "analysed")
_TIMED = (
    "trap : HUP INT TERM QUIT USR1 USR2; "
    'date +%s%N >"$0.begin"; "$@" >"$0.output" 2>&1; code=$?; date +%s%N >"$0.end"; exit $code'
)
"""Script for sh: runs a command and leaves in three files when it began, what it said, and when it ended. The
shell itself outlives signals, which are for the command, so that it waits for the command's end."""
_LOOK_S = 0.2
_PATIENCE_S = 30.0


class Interrupted(Exception):
    """A signal has ended the measurement, as it has ended the program.

    Parameters
    ----------
    code
        Exit code of who is ended by that signal.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True)
class Measured:
    """Seconds of each execution, by kind, of rounds that are whole."""

    times_s: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def rounds(self) -> int:
        """Number of rounds that are whole."""
        return min(map(len, self.times_s.values()))


@dataclass(frozen=True)
class Trial:
    """Command that is measured, with its settings."""

    command: tuple[str, ...]
    """Command as it is given to ``chimbuko run``: traced by ``chimbuko trace`` or ``tau_exec``."""
    period_s: float
    """Seconds between two steps of the trace."""
    run_options: tuple[str, ...] = ()
    """Further options of ``chimbuko run``."""


def measure(trial: Trial, rounds: int, on_time: Callable[[int, str, float], None], into: Measured) -> None:
    """Run all kinds in turns, in another order in each round, after a round that does not count.

    Parameters
    ----------
    on_time
        Is called with the number of the round, the kind and its seconds.
    into
        Receives the times, so that whole rounds are kept where this is interrupted.

    Raises
    ------
    CommandError
        The program cannot be run.
    ConfigError
        It ends with an error, or is not traced.
    Interrupted
        A signal has asked this process to end.
    """
    check_command(trial.command[0])
    for number in range(rounds + 1):
        order = random.Random(number).sample(KINDS, len(KINDS))
        times_s = {}
        for kind in order:
            with tempfile.TemporaryDirectory(prefix="chimbuko-overhead-") as name:
                times_s[kind] = _run(kind, trial, Path(name))
            on_time(number, kind, times_s[kind])
        if number:
            for kind, time_s in times_s.items():
                into.times_s[kind].append(time_s)


def _run(kind: str, trial: Trial, folder: Path) -> float:
    stamp = folder / "program"
    if kind == "analysed":
        own = [
            sys.executable,
            "-m",
            "chimbuko",
            "run",
            "--json",
            "--no-dashboard",
            "--period",
            f"{trial.period_s:g}",
        ]
        own += ["--output", str(folder / "run"), *trial.run_options, "--"]
        return _timed(kind, [*own, *_with_times(trial.command, stamp)], {}, folder, folder)
    choice = choose_folder([MEMORY, Path(tempfile.gettempdir())])
    if choice.folder is None:
        raise ConfigError(f"there is no room for traces: {'; '.join(choice.refusals)}")
    with tempfile.TemporaryDirectory(prefix="chimbuko-overhead-", dir=choice.folder) as name:
        streams = Path(name)
        settings = application_settings(
            folder, streams, round(1e6 * trial.period_s), os.environ, Transport.FILES
        )
        command = list(trial.command)
        if kind == "application":
            command, path = without_tau(command, folder / "plainly", os.environ)
            settings = {**settings, **path, **PLAINLY}
        time_s = _timed(kind, _with_times(command, stamp), settings, folder, streams)
        _check_traced(kind, streams)
    return time_s


def _with_times(command: Sequence[str], stamp: Path) -> list[str]:
    return ["/bin/sh", "-c", _TIMED, str(stamp), *command]


def _timed(
    kind: str, words: Sequence[str], settings: Mapping[str, str], folder: Path, filling: Path
) -> float:
    """Seconds of the program in a command, which is waited for; the command is ended where this is.

    Parameters
    ----------
    folder
        Has what the program and all else said.
    filling
        Where the command leaves data. It is ended where no room is left there.
    """
    with open(folder / "said", "wb") as said, UserCommand() as program:
        program.start(
            words,
            {**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
        try:
            while (code := _wait(program)) is None and not program.asked_to_end:
                if shutil.disk_usage(filling).free < NEEDED_BYTES // 4:
                    raise ConfigError(
                        f"{kind}: what it writes fills {filling.parent}; let it run for a shorter time"
                    )
        finally:
            _end(program)
    if program.asked_to_end:
        raise Interrupted(128 + program.asked_to_end)
    if code:
        raise ConfigError(f"{kind}: ended with code {code}{_last_words(folder)}")
    begin, end = (int((folder / f"program.{moment}").read_text()) for moment in ("begin", "end"))
    return (end - begin) / 1e9


def _wait(program: UserCommand) -> int | None:
    try:
        return program.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _end(program: UserCommand) -> None:
    """End a command that is given up; one that has been asked to end already gets its time for that."""
    for number in (None if program.asked_to_end else signal.SIGTERM, signal.SIGKILL):
        if program.poll() is not None:
            return
        if number is not None:
            program.send(number)
        with suppress(subprocess.TimeoutExpired):
            program.wait(_PATIENCE_S)


def _last_words(folder: Path) -> str:
    """Return the last line of what the program said, or else of what its command said."""
    for name in ("program.output", "said"):
        with suppress(OSError):
            lines = [
                line for line in (folder / name).read_text(errors="replace").splitlines() if line.strip()
            ]
            if lines:
                return f": {lines[-1].strip()}"
    return ""


def _check_traced(kind: str, streams: Path) -> None:
    """Raise ConfigError where a program is traced that should not be, or the other way round."""
    is_traced = any(path.name != CLAIMS_FOLDER for path in streams.iterdir())
    if kind == "application" and is_traced:
        raise ConfigError(
            "the program is traced by itself, so there is nothing to compare with; leave that out"
        )
    if kind == "traced" and not is_traced:
        raise ConfigError(
            "the program is not traced: put 'chimbuko trace' before it, or tau_exec with -adios2_trace"
        )
