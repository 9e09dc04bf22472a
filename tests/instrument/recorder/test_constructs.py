"""Constructs of OpenMP, under the runtimes of GCC and of LLVM: regions, loops, barriers, locks, tasks."""

from __future__ import annotations

import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from chimbuko.core.statistics.latethreads import LATE_THREADS, decode_late_threads
from chimbuko.core.traceschema import EventType
from tests.instrument.recorder.streams import WHOLE, Stream, record

SOURCE = Path(__file__).with_name("programs") / "constructs.c"
STEPS = 30


def compiled(folder: Path, compiler: str, *flags: str) -> Path:
    program = folder / f"constructs{len(flags)}"
    words = [compiler, "-O1", "-g", *flags, str(SOURCE), "-o", str(program), "-lpthread", "-ldl"]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode and compiler == "clang":
        pytest.skip(f"clang has no OpenMP: apt-get install clang libomp-dev ({done.stderr.strip()[:80]})")
    assert done.returncode == 0, done.stderr
    return program


@pytest.fixture(scope="module", params=["gcc", "clang"])
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Stream]:
    folder = tmp_path_factory.mktemp("constructs")
    own, child = record(folder, [*WHOLE, compiled(folder, request.param, "-fopenmp")])
    assert child.calls()["OpenMP parallel work"] == 1
    return request.param, own


def kinds(stream: Stream, thread: int | None = None) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, calls in stream.calls(thread).items():
        found[" ".join(name.split()[:2])] += calls
    return found


def test_each_thread_has_its_part_of_each_region(recorded: tuple[str, Stream]) -> None:
    _, stream = recorded
    for thread in (0, 1, 2):
        calls = stream.calls(thread)
        assert calls["OpenMP parallel solve"] == calls["OpenMP parallel update"] == STEPS
    calls = stream.calls()
    # Two regions, with two threads in each, in another one of two threads, by two threads of the program.
    assert sum(calls[name] for name in calls if name.startswith("OpenMP parallel nest")) >= 4
    assert kinds(stream)["OpenMP parallel"] == 2 * 3 * STEPS + 2 * (2 + 2 * 2) + 2


def test_places_are_lines_of_the_source(recorded: tuple[str, Stream]) -> None:
    _, stream = recorded
    lines = SOURCE.read_text().splitlines()
    at = {name: stream.names.timers[timer] for timer, name in enumerate_names(stream)}
    line = int(at["OpenMP parallel solve"].rpartition("{")[2].partition(",")[0])
    assert "constructs.c} {" in at["OpenMP parallel solve"]
    assert any("omp parallel" in text for text in lines[line - 2 : line + 1])


def enumerate_names(stream: Stream) -> list[tuple[int, str]]:
    return [(timer, stream.function(timer)) for timer in stream.names.timers]


def test_loops_barriers_and_locks(recorded: tuple[str, Stream]) -> None:
    compiler, stream = recorded
    found = kinds(stream)
    assert found["OpenMP loop"] == 3 * STEPS
    # Each thread waits behind the loop, at the barrier, and at the end of both regions. The last waits of
    # workers, which hear of no further region, may be missing.
    assert 4 * 3 * STEPS <= found["OpenMP barrier"] <= 4 * 3 * STEPS + 30
    assert found["OpenMP critical"] >= STEPS
    held = [name for name in stream.names.counters.values() if name.startswith("Waited for a lock: held by")]
    assert held
    assert (found["OpenMP task"] == 5) == (compiler == "clang")
    hidden = "5 tasks of OpenMP, which GCC's runtime hides"
    assert stream.metadata("Not Recorded") == (hidden if compiler == "gcc" else "")


def test_a_barrier_has_one_number_on_all_threads(recorded: tuple[str, Stream]) -> None:
    _, stream = recorded
    threads: dict[int, set[int]] = defaultdict(set)
    arrivals: Counter[int] = Counter()
    for row in stream.operations.tolist():
        threads[row[6]].add(row[2])
        arrivals[row[6]] += 1
    assert all(len(threads[number]) == times for number, times in arrivals.items())
    assert sum(len(of) == 3 for of in threads.values()) >= 4 * STEPS - 2


def test_a_wait_ends_with_its_region_and_not_with_the_next_one(recorded: tuple[str, Stream]) -> None:
    _, stream = recorded
    ends: dict[int, list[int]] = defaultdict(list)
    for row in stream.events.tolist():
        if stream.function(row[4]) == "OpenMP barrier solve" and row[3] == EventType.EXIT:
            ends[row[2]].append(row[5])
    # The master's barrier ends when the region does; what workers write later has that time.
    for thread in (1, 2):
        for end_us in ends[thread]:
            assert min(abs(end_us - other_us) for other_us in ends[0]) < 500


def test_the_slow_thread_is_told(recorded: tuple[str, Stream]) -> None:
    _, stream = recorded
    slow = [one for one in decode_late_threads(stream.metadata(LATE_THREADS)) if "solve" in one.barrier]
    # Threads have the numbers that OpenMP gives them.
    assert [(one.thread, one.threads, one.regions >= STEPS - 1) for one in slow] == [(1, 3, True)]
    assert slow[0].ratio > 1.2 and slow[0].share >= 0.6
    assert slow[0].barrier.startswith("OpenMP barrier solve [{")


def test_a_library_that_is_loaded_later_has_its_own_runtime(tmp_path: Path) -> None:
    library = compiled(tmp_path, "gcc", "-fopenmp", "-shared", "-fPIC")
    loader = compiled(tmp_path, "gcc", "-DLOADER")
    stream, _ = record(tmp_path, [*WHOLE, loader, library])
    assert stream.calls()["OpenMP parallel solve"] == 3 * STEPS


def test_they_are_left_alone_if_wanted(tmp_path: Path) -> None:
    program = compiled(tmp_path, "gcc", "-fopenmp")
    stream, *_ = record(tmp_path, ["--no-openmp", program])
    assert stream.calls() == {".TAU application": 1}
