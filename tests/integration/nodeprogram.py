"""A program of several ranks on a node of a run, under a stand-in for TAU, and what it has written."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from chimbuko.core.calls.record import StreamHealth
from chimbuko.launcher.nodescript import NODE_VARIABLE
from chimbuko.runtime.runs.directory import RunDirectory
from tests.integration.conftest import STAND_IN


@dataclass(frozen=True)
class Written:
    """What a rank has written."""

    steps: int
    rows: int


class NodeProgram:
    """The ranks of one node, from ``first_rank`` on; started by the command of the node in the run's folder.

    Parameters
    ----------
    words
        What each rank runs.
    """

    def __init__(
        self, run: RunDirectory, node: str, first_rank: int, ranks: int, folder: Path, words: list[str]
    ) -> None:
        self._reports = {rank: folder / f"rank-{rank}.json" for rank in range(first_rank, first_rank + ranks)}
        command = [str(run.node_command), *map(str, STAND_IN), "-T", "mpi", "-adios2_trace", *words]
        self.processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                env={
                    **os.environ,
                    NODE_VARIABLE: node,
                    "SLURM_PROCID": str(rank),
                    "STAND_IN_REPORT": str(report),
                },
            )
            for rank, report in self._reports.items()
        ]

    def wait(self, timeout_s: float = 120.0) -> list[int]:
        """Wait for its end; the ranks' exit codes."""
        return [process.wait(timeout_s) for process in self.processes]

    @property
    def written(self) -> dict[int, Written]:
        """By rank; after the end."""
        reports = {rank: json.loads(path.read_text()) for rank, path in self._reports.items()}
        return {rank: Written(report["steps"], report["rows"]) for rank, report in reports.items()}


def read(health: list[StreamHealth]) -> dict[int, Written]:
    """What was read of each rank."""
    return {stream.rank: Written(stream.steps, stream.rows) for stream in health}
