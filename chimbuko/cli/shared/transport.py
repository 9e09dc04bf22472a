"""The options of the transport: how the trace comes to its readers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from chimbuko.capture.follow.limits import Limits
from chimbuko.capture.follow.space import MEMORY
from chimbuko.capture.trace.discovery import Transport
from chimbuko.core.units import parse_size
from chimbuko.launcher.options import TransportOptions

SHIELD_MODES = ("auto", "off")


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
        options = TransportOptions(
            transport=None if transport is None else Transport(transport),
            trace_dir=trace_dir,
            keep_trace=keep_trace,
            limits=Limits(parse_size(trace_limit), parse_size(node_limit)),
            has_shield=sst_shield == "auto",
        )
        command(transport=options, **values)

    wrapped: Callable[..., None] = with_transport
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped


_OPTIONS = (
    click.option(
        "--transport",
        type=click.Choice([Transport.FILES.value, Transport.SST.value]),
        help="How the trace reaches its readers: through files in this node's memory, where nothing that "
        "happens to a reader can affect the program (the default), or over SST.",
    ),
    click.option(
        "--trace-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Folder for these files, on a local disk; default {MEMORY}, or $TMPDIR where that has no room.",
    ),
    click.option(
        "--trace-limit",
        default="64MB",
        show_default=True,
        help="Most that one stream may hold unread; beyond it its oldest steps are dropped, and counted.",
    ),
    click.option(
        "--node-limit",
        default="1GB",
        show_default=True,
        help="Most that all streams of a node together may hold unread.",
    ),
    click.option("--keep-trace", is_flag=True, help="Keep the whole trace in the run's folder."),
    click.option(
        "--sst-shield",
        type=click.Choice(SHIELD_MODES),
        default=SHIELD_MODES[0],
        show_default=True,
        help="Over SST, preload a small library that keeps the program alive when a reader dies while it "
        "joins; auto does so where the library has been tried with the program's build of ADIOS2.",
    ),
)
