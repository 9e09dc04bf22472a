"""Finds traces of other tools among files, and converts them in a process of its own."""

from __future__ import annotations

import glob
import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from chimbuko.capture.formats.conversion import Converted, convert, program_name
from chimbuko.capture.formats.readers.registry import check
from chimbuko.core.errors import ChimbukoError, TraceFormatError
from chimbuko.runtime.process.lifetime import die_with_parent

STREAM_SUFFIX = ".bp"


class Traces(msgspec.Struct, frozen=True):
    """Traces that match the patterns."""

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


def convert_apart(files: Sequence[Path], folder: Path, period_us: int) -> Converted:
    """Convert files in a process of its own: services are forks of this one, which stays small.

    Raises
    ------
    TraceFormatError
        There are no calls in them, or no room for them.
    """
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_convert, args=(files, folder, period_us, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        answer: Converted | ChimbukoError = ours.recv()
    except EOFError:
        raise TraceFormatError(
            f"{files[0]}: the reader of the trace died; see whether memory is short"
        ) from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(answer, ChimbukoError):
        raise answer
    return answer


def _convert(files: Sequence[Path], folder: Path, period_us: int, answer: Connection) -> None:
    """Body of the process."""
    # Ctrl-C is for who waits for it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    try:
        answer.send(convert(files, folder, program_name(files[0]), period_us))
    except ChimbukoError as error:
        answer.send(error)
