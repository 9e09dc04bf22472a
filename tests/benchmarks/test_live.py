"""What is made of runs beside a real TAU, and what happens where there is none."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.live.aims import HEADS, UNNAMED, Outcome, Variant, losses_of, missed_aims, report, rows, total
from benchmarks.live.trial import SOURCE, TIMED, Program
from examples.truth import InjectedDelay, read_truth
from tests.instrument.recorder.mpi import WHEEL
from tests.places import ROOT

FILES, SST = Variant("files"), Variant("sst")
GOOD = Outcome(FILES, wall_s=21.0, exit_code=0, delays=20, found=18, flags=160, steps=88)


def live(folder: Path) -> subprocess.CompletedProcess[str]:
    """With nothing on the PATH but what is in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "benchmarks.live", "--rounds", "1"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


def missed(*outcomes: Outcome) -> list[str]:
    return missed_aims(outcomes[0].variant, total(outcomes))


def test_without_mpi_or_tau_there_is_one_sentence_and_a_code(tmp_path: Path) -> None:
    without_mpi = live(tmp_path)
    assert (without_mpi.returncode, without_mpi.stdout) == (3, "")
    assert "mpicc" in without_mpi.stderr and without_mpi.stderr.count("\n") == 1
    for tool in ("mpicc", "mpirun"):
        (tmp_path / tool).touch(mode=stat.S_IRWXU)
    without_tau = live(tmp_path)
    assert without_tau.returncode == 3
    assert "tau_exec" in without_tau.stderr and without_tau.stderr.count("\n") == 1


def test_a_good_run_misses_nothing() -> None:
    assert missed(GOOD, GOOD) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exit_code": 99}, "died or hung in 1 of 2 runs"),
        ({"exit_code": None}, "died or hung in 1 of 2 runs"),
        ({"lost_steps": 2}, "2 steps were lost"),
        ({"losses": ((UNNAMED, 1500),)}, "1,500 rows of a timer not named yet"),
        ({"losses": (("streams without an end", 1),)}, "1 streams without an end"),
        ({"found": 17}, "only 35 of 40 delays were found"),
        ({"flags": 200}, "9.0 flags per delay"),
    ],
)
def test_each_aim_that_is_missed_is_reported(change: dict[str, object], words: str) -> None:
    (line,) = missed(GOOD, replace(GOOD, **change))
    assert line == f"files: {line.removeprefix('files: ')}" and words in line


def test_nothing_seen_is_never_good() -> None:
    assert "no step was seen" in missed(Outcome(SST, 1.0, 0))[0]


def test_killed_readers_may_leave_gaps_over_sst_only() -> None:
    killed = replace(GOOD, variant=Variant("sst", is_killed=True), lost_steps=7, found=3, kills=4)
    assert missed(killed) == []
    assert missed(replace(killed, variant=Variant("files", is_killed=True)))
    assert "died or hung" in missed(replace(killed, exit_code=139))[0]


def test_losses_are_those_of_the_summary() -> None:
    summary = {"losses": {"EXIT without ENTRY": 4}, "dropped": 0, "broken_streams": ["0:3"], "gap_steps": 9}
    assert losses_of(summary) == (("EXIT without ENTRY", 4), ("streams without an end", 1))
    assert losses_of({}) == ()


def test_table_and_json() -> None:
    alone = [Outcome(Variant(""), wall_s, 0) for wall_s in (20.5, 20.0, 22.0)]
    hung = Outcome(SST, float("inf"), None, delays=20)
    totals = [total(alone), total([GOOD]), total([hung])]
    table = rows(totals)
    assert {len(row) for row in table} == {len(HEADS)}
    assert table[0] == ("without us", "", "", "", "", "", "", "", "20.5 (20.0-22.0)", "")
    assert table[1][:4] == ("files", "18 of 20", "8.0", "88")
    assert table[2][1] == "0 of 20" and table[2][-2:] == ("", "1")
    assert json.loads(json.dumps(report(totals, []), allow_nan=False))["variants"][1]["found"] == 18


def test_application_is_timed_and_keeps_its_exit_code(tmp_path: Path) -> None:
    place = tmp_path / "application"
    done = subprocess.run(["sh", "-c", TIMED, str(place), "sh", "-c", "echo said; sleep 0.1; exit 5"])
    assert done.returncode == 5
    begin, end = (int(place.with_suffix(suffix).read_text()) for suffix in (".begin", ".end"))
    assert 0.1e9 <= end - begin < 20e9
    assert place.with_suffix(".output").read_text() == "said\n"


def test_options_of_the_program_are_known_to_it() -> None:
    command = Program(Path("heat_mpi"), 4, 20.0, 12, 1.0).command(Path("truth"), 7)
    for option in (word.removeprefix("--") for word in command if word.startswith("--")):
        assert f'{{"{option}", required_argument' in SOURCE.read_text()


@pytest.mark.thorough
def test_program_loses_time_where_and_when_its_seed_says(tmp_path: Path) -> None:
    program = WHEEL.build(SOURCE, tmp_path / "heat_mpi", "mpicc", "-Wall", "-Wextra", "-Werror")

    def delays(seed: int) -> list[InjectedDelay]:
        words = [program, "--seconds", "2.4", "--delays", "4", "--seed", str(seed), "--truth", tmp_path]
        subprocess.run([*WHEEL.launch(3), *words], check=True, capture_output=True)
        return read_truth(tmp_path.glob("truth-*.txt"))

    def plan(found: list[InjectedDelay]) -> list[tuple[int, int, str, int]]:
        return [(delay.rank, delay.index, delay.function, delay.milliseconds) for delay in found]

    first, again, other = delays(1), delays(1), delays(2)
    assert plan(first) == plan(again) != plan(other)
    assert len(first) == len(other) == 4
    for delay in first:
        assert delay.end_us - delay.start_us >= 1000 * delay.milliseconds >= 20_000
    refused = subprocess.run([program, "--seconds", "1", "--delays", "9"], capture_output=True, text=True)
    assert refused.returncode == 2 and refused.stderr.startswith("usage: ")
