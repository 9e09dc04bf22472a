"""Statistics that agents which ended, or were killed, have left in their folders."""

from __future__ import annotations

from contextlib import closing
from glob import iglob
from pathlib import Path

from chimbuko.ad.modelsync.agentstatistics import AgentStatistics
from chimbuko.ad.modelsync.deltamaker import DeltaMaker
from chimbuko.ad.streams.deltalog import LOG_FILES, LOG_NAME, DeltaLog
from chimbuko.ad.streams.streamhandle import BOX, left_streams
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.statistics.schema import schema_of
from chimbuko.runtime.process.nameholding import hold
from chimbuko.runtime.protocol.messages import Delta


def agents_in(folder: Path) -> list[Path]:
    """Return the folders of agents, in that of a node, that may have left deltas."""
    # Path.glob ends with an error where a folder goes meanwhile (Python 3.11).
    logs, boxes = iglob(f"*/{LOG_FILES}", root_dir=folder), iglob(f"*/*/{BOX}", root_dir=folder)
    return sorted({folder / Path(path).parts[0] for path in (*logs, *boxes)})


def left_deltas(folder: Path, config: AnalysisConfig) -> dict[int, list[Delta]]:
    """Return the deltas that an agent has left in its folder, by part of the parameter server and in order,
    with those of all that its streams had.

    They stay there, each with its number: a server that gets them twice, from here or from an agent that
    continues there, recognises them.
    """
    with closing(hold(str(folder.absolute()))):
        statistics = AgentStatistics(folder.name, 0, schema_of(config.detector), config.server_parts)
        delta_log = DeltaLog(folder / LOG_NAME)
        maker = DeltaMaker(statistics, delta_log, period_s=1.0, is_lockstep=False)
        streams = left_streams(folder, "", config)
        for stream in streams:
            maker.let_inherit(stream)
        maker.make(streams, is_flushing=True)
        delta_log.close()
        for stream in streams:
            stream.box.close()
    return maker.pending.all()
