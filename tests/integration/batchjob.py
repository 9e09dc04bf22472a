"""A job of ``chimbuko launch`` around a Python program whose calls and delays are known."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.runtime.runs.finding import runs_in
from examples.findings import all_anomalies
from tests.calldata import no_loss
from tests.integration.slurm import Slurm

CHIMBUKO = [sys.executable, "-m", "chimbuko"]
RANKS = 4
STEPS, DELAYED = 400, (200, 300)
PROGRAM = f"""
import pathlib, sys, time

from chimbuko.runtime.process.ranks import rank_from
import os

def relax(number):
    time.sleep(0.25 if number in {DELAYED} else 0.004)

def step(number):
    relax(number)

folder, rank = pathlib.Path(sys.argv[1]), rank_from(os.environ)
(folder / f"began-{{rank}}").touch()
number = 0
while number < {STEPS} or not (folder / "enough").exists():
    step(number)
    number += 1
(folder / f"steps-{{rank}}").write_text(str(number))
"""
"""It goes on until it is enough."""


class BatchJob:
    """A job in a folder of its own, which all nodes of the cluster see."""

    def __init__(self, cluster: Slurm, name: str, *options: str) -> None:
        self.folder = cluster.folder / name
        self.folder.mkdir()
        (self.folder / "program.py").write_text(PROGRAM)
        traced = [*CHIMBUKO, "trace", "program.py", str(self.folder)]
        made = ["-n", str(RANKS), *options, "-o", "job.sh", "--"]
        cluster.on_login(*CHIMBUKO, "launch", *made, *traced, cwd=self.folder)

    @property
    def runs(self) -> list[RunDirectory]:
        """In the order in which they began."""
        return runs_in(self.folder / "chimbuko-runs")

    @property
    def output(self) -> str:
        """Empty before there is one."""
        path: Path = self.folder / "job.out"
        return path.read_text() if path.exists() else ""

    @property
    def is_running(self) -> bool:
        """All its ranks have begun, and the store knows all their streams."""
        if len(list(self.folder.glob("began-*"))) < RANKS:
            return False
        with open_run(self.runs[-1]) as provenance:
            return len(provenance.health()) == RANKS

    def forget_beginning(self) -> None:
        """For a job that is about to begin again."""
        for path in self.folder.glob("began-*"):
            path.unlink()

    def let_it_end(self) -> None:
        (self.folder / "enough").touch()

    def assert_whole(self) -> None:
        """Its last run lost nothing, and counted what its ranks say that they did."""
        run = self.runs[-1]
        assert run.read_info().state == "finished"
        assert no_loss(self.output)
        with open_run(run) as provenance:
            found, health = all_anomalies(provenance), provenance.health()
            statistics = provenance.function_statistics()
        assert [(s.state, s.gap_steps, s.losses) for s in health] == [("ended", 0, {})] * RANKS
        steps = sum(int(path.read_text()) for path in self.folder.glob("steps-*"))
        assert [f.calls for f in statistics if f.name.startswith("relax [")] == [steps]
        assert steps >= RANKS * STEPS
        assert len(found) == sum(stream.anomalies for stream in health)
        delays = [call for call in found if call.inclusive_us > 200_000 and call.function.startswith("relax")]
        # A busy machine delays further ones.
        by_rank = Counter(call.rank for call in delays)
        assert len(by_rank) == RANKS and min(by_rank.values()) >= len(DELAYED)

    def nodes(self) -> set[str]:
        """That have read streams, in the last run."""
        with open_run(self.runs[-1]) as provenance:
            return {stream.node for stream in provenance.health()}

    def assert_stored(self, but: str = "") -> None:
        """What agents have found is in the store of the last run, but for one whose node is gone."""
        with open_run(self.runs[-1]) as provenance:
            found, health = all_anomalies(provenance), provenance.health()
        assert len(health) == RANKS
        seen = {stream.rank: stream.anomalies for stream in health if stream.node != but}
        assert seen and len([call for call in found if call.rank in seen]) == sum(seen.values())
