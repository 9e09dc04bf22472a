"""Looks into recorded streams in a process of its own: a damaged file can crash ADIOS2, or make it hang."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from chimbuko.capture.trace.discovery import BP_FILE, StreamName
from chimbuko.capture.trace.reader import StreamReader
from chimbuko.core.errors import TraceFormatError

OPEN_TIMEOUT_S = 1.0
"""A recorded file is all there: ADIOS2 need not wait for the rest of it."""
LONGEST_LOOK_S = 60.0
"""Opening a stream takes milliseconds; on a file system under load it may be seconds."""

Answer = TypeVar("Answer")


def readable(streams: Sequence[StreamName]) -> tuple[list[StreamName], list[str]]:
    """Return the recorded streams that can be opened, and one line for each that cannot.

    Raises
    ------
    TraceFormatError
        There are streams, but none that can be opened.
    """
    answers = apart(_open, [stream.path for stream in streams])
    errors = [answer for answer in answers if isinstance(answer, TraceFormatError)]
    usable = [stream for stream, answer in zip(streams, answers, strict=True) if answer is None]
    if streams and not usable:
        raise errors[0]
    return usable, [f"{error}; left out" for error in errors]


def apart(look: Callable[[Path], Answer], paths: Sequence[Path]) -> list[Answer | TraceFormatError]:
    """Return what ``look`` answers for each stream, or why it does not; whatever the files hold, no harm is
    done.
    """
    answers: list[Answer | TraceFormatError] = []
    while len(answers) < len(paths):
        answers += _until_harmed(look, paths[len(answers) :])
    return answers


def _until_harmed(look: Callable[[Path], Answer], paths: Sequence[Path]) -> list[Answer | TraceFormatError]:
    """Answers of one process: to all of ``paths``, or up to the one that it does not come back from."""
    # Commands have no threads; a new Python would take 0.2 s.
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_look_into_all, args=(look, paths, theirs), daemon=True)
    process.start()
    theirs.close()
    answers: list[Answer | TraceFormatError] = []
    try:
        for path in paths:
            if not ours.poll(LONGEST_LOOK_S):
                return [*answers, TraceFormatError(f"{path}: a damaged trace stream (ADIOS2 hangs in it)")]
            answers.append(ours.recv())
    except EOFError:
        answers.append(TraceFormatError(f"{path}: a damaged trace stream (ADIOS2 crashes on it)"))
    finally:
        process.kill()
        process.join()
        ours.close()
    return answers


def _look_into_all(look: Callable[[Path], Answer], paths: Sequence[Path], answers: Connection) -> None:
    """Body of the process."""
    # ADIOS2 prints what it stumbles over.
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    for path in paths:
        try:
            answers.send(look(path))
        except TraceFormatError as error:
            answers.send(error)


def _open(path: Path) -> None:
    StreamReader(path, BP_FILE, OPEN_TIMEOUT_S).close()
