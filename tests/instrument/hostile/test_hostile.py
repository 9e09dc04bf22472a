"""Of generated programs no call is missing without a word: what is recorded is the truth, or it is said."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chimbuko.core.sourcecensus import CALLS_SEEN, parse_census
from chimbuko.core.traceschema import (
    EVENT_THREAD,
    EVENT_TIME,
    EVENT_TIMER,
    EVENT_TYPE,
    LEFT_OUT_FUNCTIONS,
    NOT_RECORDED,
    UNTRACED_CHILDREN,
    EventType,
)
from chimbuko.instrument.recorder.library import INCLUDE
from tests.instrument.hostile.programs import HIDING, SLOW_US, c_text, python_text, tree, truth
from tests.instrument.recorder.streams import Stream, record
from tests.thorough import first

TOGETHER = 15
"""Programs in one process: each run costs 1 to 2 s, whatever is in it."""
BATCHES = 34
"""Batches in either language, so that all together are more than 1,000 programs."""


def in_python(folder: Path, seeds: range) -> list[str | Path]:
    (folder / "program.py").write_text(python_text(seeds))
    return [folder / "program.py"]


def in_python_at_its_limit(folder: Path, seeds: range) -> list[str | Path]:
    (folder / "program.py").write_text(python_text(seeds, ("plain", *HIDING)))
    return [folder / "program.py"]


def in_c(folder: Path, seeds: range) -> list[str | Path]:
    source, program = folder / "program.c", folder / "program"
    source.write_text(c_text(seeds))
    words = ["cc", "-O1", "-g", "-finstrument-functions", f"-I{INCLUDE}", str(source), "-o", str(program)]
    done = subprocess.run([*words, "-lpthread"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [program]


@pytest.mark.parametrize("batch", first(1, range(BATCHES)))
@pytest.mark.parametrize("made", [in_python, in_python_at_its_limit, in_c])
def test_no_call_is_missing_without_a_word(
    made: Callable[[Path, range], list[str | Path]],
    batch: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    seeds = range(batch * TOGETHER, (batch + 1) * TOGETHER)
    streams = record(tmp_path, made(tmp_path, seeds))
    expected, calls, longest_us = truth(tmp_path), Counter[str](), Counter[str]()
    for stream in streams:
        for name, time_us in recorded(stream):
            calls[name] += 1
            longest_us[name] = max(longest_us[name], time_us)
    assert len(expected) > 2 * TOGETHER
    wrong = {name: (number, calls[name]) for name, number in expected.items() if number != calls[name]}
    assert not wrong or any(map(is_said, streams)), wrong
    censuses = [parse_census(stream.metadata(CALLS_SEEN)) for stream in streams]
    are_all_told = not any(stream.metadata(UNTRACED_CHILDREN) for stream in streams)
    if are_all_told and not any(census is None or census.uncounted for census in censuses):
        unwritten = sum(sum(census.unwritten.values()) for census in censuses if census)
        assert sum(number - found for number, found in wrong.values()) <= unwritten
    if made is in_python_at_its_limit and any(stream.metadata(NOT_RECORDED) for stream in streams):
        return
    assert not [name for name, (number, found) in wrong.items() if found > number], wrong
    if made is in_python_at_its_limit:
        # Whoever is called too deeply comes no further than to its own next call.
        return
    slow = {tree(seed, ("plain",))[-1].name for seed in seeds} & expected.keys() - wrong.keys()
    assert {name for name in slow if longest_us[name] < SLOW_US} == set()


def recorded(stream: Stream) -> Iterator[tuple[str, int]]:
    """Yield the name of each call that began, with its time in µs if it also ended."""
    for thread in np.unique(stream.events[:, EVENT_THREAD]).tolist():
        stack: list[tuple[str, int]] = []
        rows = stream.events[stream.events[:, EVENT_THREAD] == thread]
        for row in rows.tolist():
            name = stream.function(row[EVENT_TIMER]).rpartition(".")[2].partition("(")[0]
            if row[EVENT_TYPE] == EventType.ENTRY:
                stack.append((name, row[EVENT_TIME]))
            else:
                begun, time_us = stack.pop()
                assert begun == name
                yield name, row[EVENT_TIME] - time_us
        yield from ((name, 0) for name, _ in stack)


def is_said(stream: Stream) -> bool:
    """Return whether what recorded a stream says that calls are missing."""
    census = parse_census(stream.metadata(CALLS_SEEN))
    keys = (NOT_RECORDED, UNTRACED_CHILDREN, LEFT_OUT_FUNCTIONS)
    return any(map(stream.metadata, keys)) or bool(census and census.unwritten)
