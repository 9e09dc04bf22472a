"""One sampler among the monitors of a job: real processes, of which one is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from chimbuko.core.errors import ConfigError
from chimbuko.monitor.service.election import Election, folder_of_job
from tests.patience import PATIENCE_S

RANKS = 3


class Ranks:
    """Monitors as ranks of one job, each of a program that waits for its standard input's end."""

    def __init__(self, folder: Path) -> None:
        self.lines: Queue[tuple[int, str]] = Queue()
        self.said: dict[int, str] = {}
        self.ended: set[int] = set()
        self.processes = []
        for rank in range(RANKS):
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "chimbuko", "monitor", "--period", "100ms", "--heartbeat"),
                    *("--", sys.executable, "-c", "input()"),
                ],
                env={**os.environ, "SLURM_PROCID": str(rank), "TMPDIR": str(folder)},
                stdin=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            threading.Thread(target=self._read, args=(rank, process), daemon=True).start()
            self.processes.append(process)

    def _read(self, rank: int, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        with process.stderr:
            for line in process.stderr:
                self.lines.put((rank, line))
        self.lines.put((rank, ""))

    def _next(self) -> tuple[int, str]:
        rank, line = self.lines.get(timeout=PATIENCE_S)
        self.said[rank] = self.said.get(rank, "") + line
        if not line:
            self.ended.add(rank)
        return rank, line

    def leader(self, processes: int, but: int | None = None) -> int:
        """Who says that he sees so many processes."""
        while True:
            rank, line = self._next()
            if rank != but and f" {processes} process" in line:
                return rank

    def end(self, rank: int) -> None:
        stdin = self.processes[rank].stdin
        assert stdin is not None
        if not stdin.closed:
            stdin.close()

    def reports(self) -> list[str]:
        """All reports, when all have ended."""
        while len(self.ended) < RANKS:
            self._next()
        return [text for text in self.said.values() if "Duration of execution" in text]


@pytest.fixture
def ranks(tmp_path: Path) -> Iterator[Ranks]:
    made = Ranks(tmp_path)
    yield made
    for rank, process in enumerate(made.processes):
        made.end(rank)
        process.wait(timeout=PATIENCE_S)


def test_one_samples_for_all_and_hands_over_at_its_end(ranks: Ranks, tmp_path: Path) -> None:
    first = ranks.leader(RANKS)
    ranks.end(first)
    second = ranks.leader(RANKS - 1, but=first)
    assert second != first
    for rank in range(RANKS):
        ranks.end(rank)
    found = ranks.reports()
    assert len(found) == 1
    # The one that ended first is in the report of the last.
    assert re.findall(r"^MPI (\d+)", found[0], re.MULTILINE) == ["000", "001", "002"]
    for process in ranks.processes:
        assert process.wait(timeout=PATIENCE_S) == 1
    assert not list(tmp_path.glob("chimbuko-monitor-*"))


def test_another_takes_over_from_one_that_is_killed(ranks: Ranks) -> None:
    first = ranks.leader(RANKS)
    ranks.processes[first].kill()
    # Its program runs on, and is still watched.
    second = ranks.leader(RANKS, but=first)
    assert second != first
    for rank in range(RANKS):
        ranks.end(rank)
    assert len(ranks.reports()) == 1


def test_jobs_and_launchers_are_told_apart() -> None:
    parent = os.getppid()
    assert folder_of_job({}, parent) == folder_of_job({"HOME": "/"}, parent)
    assert folder_of_job({}, parent) != folder_of_job({"SLURM_STEP_ID": "1"}, parent)
    assert folder_of_job({}, parent) != folder_of_job({}, os.getpid())


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: uid + 1)
    with pytest.raises(ConfigError, match="belongs to another user"):
        Election(tmp_path / "job").join(os.getpid())


def test_a_rank_runs_and_is_watched_where_a_stranger_has_taken_the_name(tmp_path: Path) -> None:
    environment = {**os.environ, "PMI_RANK": "0", "PMI_SIZE": "1", "TMPDIR": str(tmp_path)}
    (tmp_path / folder_of_job(environment, os.getpid()).name).touch()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "chimbuko",
            "monitor",
            "--period",
            "50ms",
            "--",
            "sh",
            "-c",
            "sleep 0.5; exit 3",
        ],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and "each rank's monitor samples for itself" in done.stderr
    assert "Duration of execution" in done.stderr


def test_a_late_one_finds_the_folder_removed(tmp_path: Path) -> None:
    """The last of a job removes it; who joins then begins anew."""
    for _ in range(3):
        one = Election(tmp_path / "job")
        one.join(os.getpid())
        assert one.lead() and one.roots() == [os.getpid()]
        assert one.take_over() == b""
        assert one.leave(lambda: b"")
        one.close()
        assert not (tmp_path / "job").exists()
