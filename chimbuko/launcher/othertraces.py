"""Traces of other tools among those that a run is asked to analyse: they become streams in the run's folder."""

from __future__ import annotations

import glob
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chimbuko.errors import ChimbukoError
from chimbuko.formats.conversion import convert, program_name
from chimbuko.formats.readers.registry import check
from chimbuko.launcher.agents import check_agents
from chimbuko.runs.directory import RunDirectory
from chimbuko.trace.discovery import StreamName

STREAM_SUFFIX = ".bp"


@dataclass(frozen=True)
class Traces:
    """What patterns match."""

    streams: tuple[str, ...]
    """Patterns of recorded streams."""
    others: tuple[Path, ...]
    """Files in formats of other tools."""


def sorted_out(patterns: Sequence[str]) -> Traces:
    """Tell streams from other files.

    Raises
    ------
    TraceFormatError
        A file is in no format that is known.
    """
    streams: list[str] = []
    others: dict[Path, None] = {}
    for pattern in patterns:
        paths = [Path(path) for path in sorted(glob.glob(pattern))]
        files = [path for path in paths if path.is_file() and path.suffix != STREAM_SUFFIX]
        others |= dict.fromkeys(files)
        rest = [path for path in paths if path not in others]
        # What matches nothing is reported where streams are looked for.
        streams += [glob.escape(str(path)) for path in rest] if paths else [pattern]
    for path in others:
        check(path)
    return Traces(tuple(streams), tuple(others))


def take_in(
    run: RunDirectory, files: Sequence[Path], period_us: int, agents: int, problems: list[str]
) -> list[StreamName]:
    """Make streams of files; where that cannot be done there is no run.

    Parameters
    ----------
    agents
        That are to share them.
    problems
        Gets a line for each thing that is not whole.

    Raises
    ------
    ChimbukoError
        There are no calls in them, or no room for them, or more agents than streams.
    """
    try:
        converted = convert(files, run.trace, program_name(files[0]), period_us)
        check_agents(agents, converted.streams)
    except ChimbukoError:
        _discard(run)
        raise
    problems += converted.complaints
    return converted.streams


def _discard(run: RunDirectory) -> None:
    """Leave nothing of a run that has not begun; what else is in its folder stays."""
    run.info_path.unlink(missing_ok=True)
    for folder in (run.logs, run.trace, run.settings):
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        run.path.rmdir()
