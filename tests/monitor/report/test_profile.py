"""How a run differs from a good one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from chimbuko.core.errors import ConfigError
from chimbuko.launcher.checkup import check_node
from chimbuko.monitor.procfs.system import NodeMemory
from chimbuko.monitor.report.profile import Profile, differences, load, profile_of, save
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import ProcessSpan
from tests.monitor.sampling.made import span, thread
from tests.patience import PATIENCE_S

SPIN = "import time\nwhile time.process_time() < 1.2: pass"


def made(pid: int = 1, cpus: tuple[int, ...] = (0,), seconds: float = 10.0, **more: object) -> Profile:
    settings = {"OMP_NUM_THREADS": str(more.pop("omp", 1)), "PMI_FD": str(pid)}
    identity = Identity(pid, 5, "app", 0, 1, cpus, settings)
    peak = int(str(more.pop("peak_bytes", 2**30)))
    return profile_of(
        span(
            thread(pid, cpus, seconds=seconds, **more),
            seconds=seconds,
            cores={0: 1.0, 1: 0.0},
            processes={pid: ProcessSpan(pid, peak, peak)},
            memory=NodeMemory(64 * 2**30, 2**30, 2**30),
        ),
        {pid: identity},
        "n1",
    )


def texts(now: Profile) -> list[str]:
    return [one.text for one in differences(made(), now)]


def test_two_runs_alike_do_not_differ() -> None:
    assert texts(made(pid=77)) == []


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (made(cpus=(0, 1)), "rank 0 may use cores 0-1, in the good run 0"),
        (made(omp=4), "OMP_NUM_THREADS is 4, in the good run 1"),
        (made(seconds=13.0), "it took 13 s, the good run 10 s on as many cores"),
        (made(busy=0.5), "rank 0 is busy for 50 % of the time, in the good run 90 %"),
        (made(waited_s=4.0), "rank 0 waits for a core for 40 % of the time, in the good run 0 %"),
        (made(peak_bytes=2**31), "rank 0 holds 2.0 GB, in the good run 1.0 GB"),
    ],
)
def test_each_difference_alone(now: Profile, text: str) -> None:
    assert texts(now) == [text]


def test_more_threads_and_processes() -> None:
    identities = {pid: Identity(pid, 5, "app", pid, 2, (0,), {}) for pid in (1, 2)}
    two = profile_of(span(thread(1), thread(2), cores={0: 1.0, 1: 0.0}), identities, "n1")
    assert "2 processes work on this node, in the good run 1" in texts(two)
    own = profile_of(
        span(thread(1), replace(thread(3), pid=1), cores={0: 1.0, 1: 0.0}), {1: identities[1]}, "n1"
    )
    assert any("2 threads that want to run, in the good run 1" in text for text in texts(own))


def test_it_is_kept_and_read_again(tmp_path: Path) -> None:
    save(made(), tmp_path)
    assert load(tmp_path, "n1") == load(tmp_path, "another") == made()
    (tmp_path / "profile.n1.json").write_text("{}")
    with pytest.raises(ConfigError, match="not a profile"):
        load(tmp_path, "n1")
    with pytest.raises(ConfigError, match="no profile of a run"):
        load(tmp_path / "none", "n1")


def test_a_run_and_a_check_before_it_against_the_one_before(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "chimbuko", "monitor", "--period", "200ms"]
    program = ["--", sys.executable, "-c", SPIN]
    subprocess.run(
        [*command, "--csv", str(tmp_path), *program], check=True, capture_output=True, timeout=PATIENCE_S
    )
    environment = {"OMP_NUM_THREADS": "7", "PATH": "/usr/bin"}
    done = subprocess.run(
        [*command, "--baseline", str(tmp_path), *program],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env=environment,
    )
    assert f"Against {tmp_path}:" in done.stderr
    assert "differs from the good run: OMP_NUM_THREADS is 7, in the good run" in done.stderr
    found = {one.about: one for one in check_node(tmp_path)}
    assert found["good run"].state == "ok", found
    assert found["cores"].state in ("ok", "warning")
