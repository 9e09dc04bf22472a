"""Runs a program alone, traced, and analysed, in turns, and takes the time of each."""

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

from chimbuko.capture.follow.space import MEMORY, NEEDED_BYTES, choose_folder
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.tausettings import CLAIMS_FOLDER, application_settings
from chimbuko.core.errors import ConfigError
from chimbuko.plan.overheadswitch import PLAINLY, without_tau

KINDS = ("application", "traced", "analysed")
_TIMED = 'date +%s%N >"$0.begin"; "$@" >"$0.output" 2>&1; code=$?; date +%s%N >"$0.end"; exit $code'
"""For sh: runs a command and leaves in three files when it began, what it said, and when it ended."""
_LOOK_S = 0.2
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class Measured:
    """Seconds of each execution, by kind, of rounds that are whole."""

    times_s: dict[str, list[float]] = field(default_factory=lambda: {kind: [] for kind in KINDS})

    @property
    def rounds(self) -> int:
        """How many are whole."""
        return min(map(len, self.times_s.values()))


@dataclass(frozen=True)
class Trial:
    """What is measured."""

    command: tuple[str, ...]
    """As it is given to ``chimbuko run``: traced by ``chimbuko trace`` or ``tau_exec``."""
    period_s: float
    """Between two steps of the trace."""
    run_options: tuple[str, ...] = ()
    """Further ones of ``chimbuko run``."""


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
    ConfigError
        The program cannot be run, ends with an error, or is not traced.
    """
    if shutil.which(trial.command[0]) is None:
        raise ConfigError(f"{trial.command[0]}: no such program")
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
    with open(folder / "said", "wb") as said:
        process = subprocess.Popen(
            words,
            env={**os.environ, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
            start_new_session=True,
        )
    try:
        while (code := _wait(process)) is None:
            if shutil.disk_usage(filling).free < NEEDED_BYTES // 4:
                raise ConfigError(
                    f"{kind}: what it writes fills {filling.parent}; let it run for a shorter time"
                )
    finally:
        _end(process)
    if code:
        raise ConfigError(f"{kind}: {_outcome(code)}{_last_words(folder)}")
    begin, end = (int((folder / f"program.{moment}").read_text()) for moment in ("begin", "end"))
    return (end - begin) / 1e9


def _wait(process: subprocess.Popen[bytes]) -> int | None:
    try:
        return process.wait(_LOOK_S)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """What is left of a command when it is given up."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        try:
            process.wait(_PATIENCE_S)
            return
        except subprocess.TimeoutExpired:
            continue


def _outcome(code: int) -> str:
    return f"ended by signal {-code}" if code < 0 else f"ended with code {code}"


def _last_words(folder: Path) -> str:
    """The last line of what the program said, or else of what its command said."""
    for name in ("program.output", "said"):
        with suppress(OSError):
            lines = [
                line for line in (folder / name).read_text(errors="replace").splitlines() if line.strip()
            ]
            if lines:
                return f": {lines[-1].strip()}"
    return ""


def _check_traced(kind: str, streams: Path) -> None:
    """Raises where a program is traced that should not be, or the other way round."""
    is_traced = any(path.name != CLAIMS_FOLDER for path in streams.iterdir())
    if kind == "application" and is_traced:
        raise ConfigError(
            "the program is traced by itself, so there is nothing to compare with; leave that out"
        )
    if kind == "traced" and not is_traced:
        raise ConfigError(
            "the program is not traced: put 'chimbuko trace' before it, or tau_exec with -adios2_trace"
        )
