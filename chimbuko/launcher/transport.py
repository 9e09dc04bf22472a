"""Ways of the streams of an application to their readers, and places on the way."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace

from chimbuko.capture.follow.guard import Options as GuardOptions
from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.space import MEMORY, choose_folder
from chimbuko.capture.trace.discovery import Transport
from chimbuko.capture.trace.shield import REPORT_VARIABLE, shield_environment, shield_library, shield_problems
from chimbuko.core.errors import ConfigError
from chimbuko.launcher.options import TransportOptions
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.scratch import scratch_folder

NO_LIMITS_GIVEN = Limits()


class StreamPlace(msgspec.Struct, frozen=True):
    """Place of the application's streams on this node."""

    transport: Transport
    folder: Path
    """Folder of the streams, or of their SST contact files."""
    guard: GuardOptions
    """Settings of the guard, the process that keeps readers, and what they have not read, from harming the
    application.
    """
    kept_trace: Path | None = None
    """Folder for a copy of followed streams; None for no copy."""
    is_ours: bool = True
    """Whether the space of followed files that were read is given back."""
    refusals: tuple[str, ...] = ()
    """Reasons why streams do not go where they would have gone otherwise, a sentence each."""


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
        reported = f"the trace comes over SST, since there is no room for its files: {reasons}"
        return _joined(run.trace, run_id, node, options.limits, reported)
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
    """Place of streams over SST. The guard has a folder of its own: contact files may stand on a network file
    system.
    """
    guarded = scratch_folder(run_id, f"guard-{node}")
    guard = GuardOptions(str(guarded), limits)
    return StreamPlace(Transport.SST, contacts.absolute(), guard, refusals=refusals)


def place_on_node(
    folder: Path, run_id: str, node: str, wanted: Transport, limits: Limits = NO_LIMITS_GIVEN
) -> StreamPlace:
    """Place streams on a node of a run on many; the folder, which exists, was chosen for all of them.

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
    """Place of streams that a program writes with other settings than ours; they are left as they are.

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
    """Return the application's environment with the shield against dying readers, where it streams over
    SST.
    """
    if place.transport is Transport.SST and options.has_shield:
        try:
            return shield_environment(Path(place.guard.folder), environment)
        except ConfigError as error:
            problems.append(f"the program runs without the shield against dying readers: {error}")
    return dict(environment)


def shield_news(place: StreamPlace, environment: Mapping[str, str], streams: int) -> list[str]:
    """Return lines for the user about the shield, once the application with its streams has ended.

    It is called before the guard's folder is removed.
    """
    if place.transport is not Transport.SST or REPORT_VARIABLE not in environment:
        return []
    return shield_problems(Path(place.guard.folder), streams)
