"""How the streams of an application come to their readers, and where they are on the way."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from chimbuko.errors import ConfigError
from chimbuko.follow.guard.guard import Options as GuardOptions
from chimbuko.follow.guard.limits import Limits
from chimbuko.follow.space import MEMORY, choose_folder
from chimbuko.runs.directory import RunDirectory
from chimbuko.runs.scratch import scratch_folder
from chimbuko.shield.library import shield_library
from chimbuko.shield.use import REPORT_VARIABLE, shield_environment, shield_problems
from chimbuko.trace.discovery import Transport
from chimbuko.units import parse_size

SHIELD_MODES = ("auto", "off")
NO_LIMITS_GIVEN = Limits()


@dataclass(frozen=True)
class TransportOptions:
    """What was asked for."""

    transport: Transport | None
    """None for files, or SST where there is no room for them."""
    trace_dir: Path | None
    keep_trace: bool
    limits: Limits
    has_shield: bool


@dataclass(frozen=True)
class StreamPlace:
    """Where the application's streams go on this node."""

    transport: Transport
    folder: Path
    """Of the streams, or of their SST contact files."""
    guard: GuardOptions
    """Of the process that keeps readers, and what they have not read, from harming the application."""
    kept_trace: Path | None = None
    """Gets a copy of followed streams; None for none."""
    is_ours: bool = True
    """What was read of followed files is given back."""
    refusals: tuple[str, ...] = ()
    """Why streams do not go where they would have gone otherwise, a sentence each."""


def transport_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the transport; it gets them as ``transport``, a ``TransportOptions``."""

    @functools.wraps(command)
    def with_transport(
        transport: str | None,
        trace_dir: Path | None,
        keep_trace: bool,
        trace_limit: str,
        node_limit: str,
        sst_shield: str,
        **values: Any,
    ) -> None:
        limits = Limits(parse_size(trace_limit), parse_size(node_limit))
        chosen = None if transport is None else Transport(transport)
        options = TransportOptions(chosen, trace_dir, keep_trace, limits, sst_shield == "auto")
        command(transport=options, **values)

    wrapped: Callable[..., None] = with_transport
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.option(
        "--transport",
        type=click.Choice([Transport.FILES.value, Transport.SST.value]),
        help="How the trace comes to its readers: through files in this node's memory, where nothing that "
        "happens to readers can reach the program (the default), or over SST.",
    ),
    click.option(
        "--trace-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Folder for these files, on a local disk; default {MEMORY}, or $TMPDIR if there is no room.",
    ),
    click.option(
        "--trace-limit",
        default="64MB",
        show_default=True,
        help="Of a stream that is not read, the oldest steps beyond so much are dropped, and counted.",
    ),
    click.option(
        "--node-limit", default="1GB", show_default=True, help="The same for all streams of a node together."
    ),
    click.option("--keep-trace", is_flag=True, help="Keep the whole trace, in the run's folder."),
    click.option(
        "--sst-shield",
        type=click.Choice(SHIELD_MODES),
        default=SHIELD_MODES[0],
        show_default=True,
        help="Over SST, preload a small library into the program that keeps it alive when a reader dies "
        "while it joins: where its ADIOS2 is a build that this was tried with.",
    ),
)


def place_streams(run: RunDirectory, run_id: str, node: str, options: TransportOptions) -> StreamPlace:
    """Choose where the application's streams go on this node, and make the folder.

    Raises
    ------
    ConfigError
        There is no such place, or the options contradict each other.
    """
    if options.transport is Transport.SST:
        for name, is_given in (("--trace-dir", options.trace_dir), ("--keep-trace", options.keep_trace)):
            if is_given:
                raise ConfigError(f"{name} goes with --transport files: over SST there are no files")
        return _joined(run.trace, run_id, node, options.limits)
    temporary = Path(tempfile.gettempdir())
    candidates = [options.trace_dir] if options.trace_dir else [MEMORY, temporary]
    choice = choose_folder([path.absolute() for path in candidates])
    if choice.folder is None:
        reasons = "; ".join(choice.refusals)
        if options.trace_dir or options.keep_trace:
            raise ConfigError(f"no room for the trace: {reasons}; choose another --trace-dir")
        told = f"the trace comes over SST, since there is no room for its files: {reasons}"
        return _joined(run.trace, run_id, node, options.limits, told)
    folder = choice.folder / f"chimbuko-{run_id}-{node}"
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise ConfigError(f"{folder}: cannot be made ({error.strerror}); choose a --trace-dir") from error
    return StreamPlace(
        transport=Transport.FILES,
        folder=folder,
        guard=GuardOptions(str(folder), options.limits),
        kept_trace=run.trace.absolute() if options.keep_trace else None,
        refusals=tuple(f"the trace goes to {choice.folder}: {reason}" for reason in choice.refusals),
    )


def _joined(contacts: Path, run_id: str, node: str, limits: Limits, *refusals: str) -> StreamPlace:
    """Over SST. The guard has a folder of its own: contact files may stand on a network file system."""
    guarded = scratch_folder(run_id, f"guard-{node}")
    guard = GuardOptions(str(guarded), limits)
    return StreamPlace(Transport.SST, contacts.absolute(), guard, refusals=refusals)


def place_on_node(
    folder: Path, run_id: str, node: str, wanted: Transport, limits: Limits = NO_LIMITS_GIVEN
) -> StreamPlace:
    """Where streams go on a node of a run on many; the folder, which exists, was chosen for all of them.

    Raises
    ------
    ConfigError
        The guard cannot have a folder.
    """
    if wanted is Transport.FILES:
        choice = choose_folder([folder])
        if choice.folder is not None:
            return StreamPlace(Transport.FILES, folder, GuardOptions(str(folder), limits))
        reason = f"on {node} the trace comes over SST, since there is no room for its files: "
        return _joined(folder, run_id, node, limits, reason + "; ".join(choice.refusals))
    return _joined(folder, run_id, node, limits)


def place_of_others(folder: Path, run_id: str, node: str) -> StreamPlace:
    """Streams that a program writes with settings that are not ours: they are read, and left as they are.

    Raises
    ------
    ConfigError
        The guard cannot have a folder.
    """
    return replace(_joined(folder, run_id, node, NO_LIMITS_GIVEN), is_ours=False)


def shield_of(place: StreamPlace, problems: list[str]) -> list[Path]:
    """Library that programs on this node preload over SST, and the folder for its reports; or nothing."""
    if place.transport is Transport.SST and place.is_ours:
        try:
            return [shield_library(), Path(place.guard.folder)]
        except ConfigError as error:
            problems.append(f"programs run without the shield against dying readers: {error}")
    return []


def shielded(
    place: StreamPlace, options: TransportOptions, environment: Mapping[str, str], problems: list[str]
) -> dict[str, str]:
    """The application's environment with the shield against dying readers, where it streams over SST."""
    if place.transport is Transport.SST and options.has_shield:
        try:
            return shield_environment(Path(place.guard.folder), environment)
        except ConfigError as error:
            problems.append(f"the program runs without the shield against dying readers: {error}")
    return dict(environment)


def shield_news(place: StreamPlace, environment: Mapping[str, str], streams: int) -> list[str]:
    """What is to be said of the shield when the application, which had so many streams, has ended; before the
    guard's folder goes.
    """
    if place.transport is not Transport.SST or REPORT_VARIABLE not in environment:
        return []
    return shield_problems(Path(place.guard.folder), streams)
