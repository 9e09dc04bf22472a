"""How the streams of an application come to their readers, and where they are on the way."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from chimbuko.errors import ConfigError
from chimbuko.rundir import RunDirectory
from chimbuko.trace.discovery import Transport

MEMORY_FOLDER = Path("/dev/shm")


@dataclass(frozen=True)
class TransportOptions:
    """What was asked for."""

    transport: Transport | None
    """None for the one that suits."""
    trace_dir: Path | None
    keep_trace: bool


@dataclass(frozen=True)
class StreamPlace:
    """What was chosen."""

    transport: Transport
    folder: Path
    """Of the streams, or of their SST contact files."""
    kept_trace: Path | None
    """Gets a copy of followed streams; None for none."""


def transport_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the transport; it gets them as ``transport``, a ``TransportOptions``."""

    @functools.wraps(command)
    def with_transport(
        transport: str | None, trace_dir: Path | None, keep_trace: bool, **values: Any
    ) -> None:
        chosen = None if transport is None else Transport(transport)
        command(transport=TransportOptions(chosen, trace_dir, keep_trace), **values)

    wrapped: Callable[..., None] = with_transport
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.option(
        "--transport",
        type=click.Choice([Transport.FILES.value, Transport.SST.value]),
        help="How the trace comes to its readers: through files in this node's memory, which nothing that "
        "happens to readers can reach (default), or over SST.",
    ),
    click.option(
        "--trace-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for the files, on a local disk; default this node's memory.",
    ),
    click.option("--keep-trace", is_flag=True, help="Keep the whole trace, in the run's folder."),
)


def place_streams(run: RunDirectory, run_id: str, options: TransportOptions) -> StreamPlace:
    """Choose where the application's streams go, and make the folder.

    Raises
    ------
    ConfigError
        There is no such place, or the options contradict each other.
    """
    if options.transport is Transport.SST:
        for name, is_given in (("--trace-dir", options.trace_dir), ("--keep-trace", options.keep_trace)):
            if is_given:
                raise ConfigError(f"{name} goes with --transport files: over SST there are no files")
        return StreamPlace(Transport.SST, run.trace, None)
    folder = (options.trace_dir or MEMORY_FOLDER).absolute() / f"chimbuko-{run_id}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(
            f"{folder}: cannot be made ({error.strerror}); choose another --trace-dir"
        ) from error
    return StreamPlace(Transport.FILES, folder, run.trace.absolute() if options.keep_trace else None)


def leave_streams(place: StreamPlace) -> None:
    """Give back what the streams took."""
    if place.transport is Transport.FILES:
        shutil.rmtree(place.folder, ignore_errors=True)
