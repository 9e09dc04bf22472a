"""Streams of an agent that has died: what was found and learned in them waits in its folder."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from chimbuko.ad.streams.streamhandle import BOX, StreamHandle
from chimbuko.capture.trace.discovery import StreamName, Transport
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.runtime.process.lifetime import log

_STREAM_FOLDER = re.compile(r"(?P<program>\d+)-(?P<rank>\d+)")


def left_streams(
    folder: Path, node: str, config: AnalysisConfig, known: Collection[Path] = ()
) -> list[StreamHandle]:
    """The streams in an agent's folder, but for those that are known; none has a process."""
    found: list[StreamHandle] = []
    for place in sorted(folder.glob(f"*/{BOX}")):
        parts = _STREAM_FOLDER.fullmatch(place.parent.name)
        if parts is None or place.parent in known:
            continue
        name = StreamName("", int(parts["rank"]), place.parent)
        program, schema = int(parts["program"]), schema_of(config.detector)
        try:
            found.append(StreamHandle(name, Transport.SST, program, node, place.parent, config, schema))
        except (OSError, MemoryError) as error:
            log(f"{place.parent}: what is left in it cannot be delivered ({error})")
    return found
