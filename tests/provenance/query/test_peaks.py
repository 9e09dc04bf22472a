"""The most anomalies and the most time lost in a step by stretches of steps, against the steps themselves."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import msgspec
import pytest

from chimbuko.core.calls.record import StepCount
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.query.steps import Peaks, step_peaks
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.write.writer import Writer
from tests.sample_records import RUN_ID, make_batch, make_run

RANKS = [(0, 0), (0, 3), (0, 4), (1, 0)]
LAST_STEPS = (700, 63, 300, 5)
LOST = range(120, 260)
"""Of the first rank: whole buckets are missing."""
QUIET = (*range(64, 192), *range(300, 520))
"""Steps without an anomaly, in whole buckets of a rank that lost some, and of one that lost none."""


def make_steps(random: Random) -> list[StepCount]:
    """Of ranks that came differently far, with gaps."""
    return [
        StepCount(program, rank, step, 1_000 * step, 1_000 * step + 999, 5, anomalies, lost_us)
        for (program, rank), last in zip(RANKS, LAST_STEPS, strict=True)
        for step in range(last + 1)
        for anomalies in [0 if step in QUIET else random.choice((0, 0, 1, 9, 300))]
        for lost_us in [anomalies and random.choice((0.4, 2.0, 2.0 ** random.uniform(0, 45)))]
        if step == last or (random.random() < 0.8 and not (rank == 0 and step in LOST))
    ]


@pytest.fixture(scope="module")
def steps() -> list[StepCount]:
    return make_steps(Random(3))


@pytest.fixture(scope="module")
def filled_url(shared_store_url: str, steps: list[StepCount]) -> str:
    engine = open_for_writing(shared_store_url)
    writer = Writer(engine, RUN_ID)
    writer.write_run(make_run())
    for program, rank in RANKS:
        mine = [step for step in steps if (step.program, step.rank) == (program, rank)]
        batch = make_batch(1, f"{program}:{rank}", steps=mine)
        writer.write(
            [
                msgspec.structs.replace(
                    batch, health=msgspec.structs.replace(batch.health, program=program, rank=rank)
                )
            ]
        )
    close(engine)
    return shared_store_url


@pytest.fixture
def stored(filled_url: str, steps: list[StepCount]) -> tuple[Provenance, list[StepCount]]:
    return Provenance(open_for_reading(filled_url)), steps


def code_of(lost_us: float) -> int:
    """By the definition of the code of a time."""
    return next((n for n in range(127) if lost_us < 2 ** (n / 3)), 127) if lost_us >= 1 else int(lost_us > 0)


def covered(found: Iterable[Peaks], steps: list[StepCount]) -> dict[tuple[int, int], set[int]]:
    """Which analysed steps of each rank the stretches cover, once each says what its steps do."""
    by_rank: dict[tuple[int, int], dict[int, StepCount]] = {}
    for step in steps:
        by_rank.setdefault((step.program, step.rank), {})[step.step] = step
    reported: dict[tuple[int, int], set[int]] = {}
    for peaks in found:
        for program, rank, first, row, lost in zip(
            peaks.programs, peaks.ranks, peaks.steps, peaks.most, peaks.lost, strict=True
        ):
            of_rank = by_rank[int(program), int(rank)]
            for number, most in enumerate(row.tolist()):
                begin = int(first) + number * peaks.length
                within = {step for step in range(begin, begin + peaks.length) if step in of_rank}
                if most:
                    assert most == max(min(of_rank[step].anomalies, 254) + 1 for step in within)
                    assert lost[number] == max(code_of(of_rank[step].severity_us) + 1 for step in within)
                    reported.setdefault((int(program), int(rank)), set()).update(within)
                else:
                    assert lost[number] == 0
    return reported


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_stretches_cover_all_steps(stored: tuple[Provenance, list[StepCount]], level: int) -> None:
    provenance, steps = stored
    with provenance:
        found = list(step_peaks(provenance.reader, level))
    assert max(peaks.length for peaks in found) <= 8 ** (level - 1)
    reported = covered(found, steps)
    assert reported == {key: {s.step for s in steps if (s.program, s.rank) == key} for key in RANKS}


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("among", [(0, 0), (60, 70), (64, 127), (500, 9_000)])
def test_a_piece_has_the_ranks_and_steps_wanted(
    stored: tuple[Provenance, list[StepCount]], level: int, among: tuple[int, int]
) -> None:
    provenance, steps = stored
    ranks = (0, 3), (1, 0)
    with provenance:
        reported = covered(step_peaks(provenance.reader, level, ranks, among), steps)
    for key in RANKS:
        wanted = {s.step for s in steps if (s.program, s.rank) == key and among[0] <= s.step <= among[1]}
        if ranks[0] <= key <= ranks[1]:
            assert wanted <= reported.get(key, set())
        else:
            assert key not in reported
