"""Traces of other tools with something wrong in them, and what shall become of these all the same."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from chimbuko.capture.formats.conversion import convert
from chimbuko.capture.formats.moments import Edge, MessageEnd, Moment, Value
from chimbuko.capture.formats.readers.events import NO_EVENTS, Catalogue
from chimbuko.capture.formats.readers.registry import events_of
from chimbuko.capture.formats.written import writer_of
from chimbuko.core.arrays import Table
from chimbuko.core.errors import TraceFormatError
from chimbuko.core.traceschema import StreamNames
from tests.capture.formats.test_binary_formats import CALIPER, write_otf2

PERIOD_US = 50_000
CALLS = 60
Chance = np.random.Generator
Spoil = Callable[[bytearray, int, Chance], None]
"""Spoils a text from a place on."""


def _moments(rank: int) -> list[Moment]:
    found: list[Moment] = []
    for number in range(CALLS):
        begin_us = 1_000_000 + 10_000 * number
        thread = number % 3
        found += [
            Edge(thread, begin_us, f"solve<{number % 7}> [grid.py]", True),
            Edge(thread, begin_us + 100, "MPI_Sendrecv()", True),
            MessageEnd(thread, begin_us + 200, 5, 64, True, f"{rank}:{1 - rank}:5:{number}"),
            MessageEnd(thread, begin_us + 3_000, 5, 64, False, f"{1 - rank}:{rank}:5:{number}"),
            Value(thread, begin_us + 4_000, "memory", number),
            Edge(thread, begin_us + 5_000, "MPI_Sendrecv()", False),
            Edge(thread, begin_us + 9_000, f"solve<{number % 7}> [grid.py]", False),
        ]
    return found


def _written(name: str) -> bytes:
    file = io.BytesIO()
    writer = writer_of(Path(name), file)
    for rank in range(2):
        writer.begin_rank(rank, f"made rank {rank}")
        writer.write(_moments(rank), StreamNames())
    writer.close()
    return file.getvalue()


def _kineto() -> bytes:
    whole: list[dict[str, Any]] = []
    for number in range(CALLS):
        here = {"ph": "X", "pid": 7, "tid": 7, "ts": 10_000 * number + 0.25, "dur": 900.5}
        on_gpu = {"cat": "kernel", "pid": 0, "args": {"correlation": number + 1, "device": 0, "stream": 7}}
        group = {"Process Group Name": "0", "dtype": "Float"}
        launch = {
            "name": "cudaLaunchKernel",
            "cat": "cuda_runtime",
            "dur": 5,
            "args": {"correlation": number + 1},
        }
        whole += [
            here | {"name": f"ProfilerStep#{number}", "cat": "user_annotation"},
            here | launch,
            here | {"name": "gemm", "dur": 700} | on_gpu,
            here | {"name": "gloo:all_reduce", "cat": "cpu_op", "ts": 10_000 * number + 2_000, "args": group},
        ]
    about = {"schemaVersion": 1, "distributedInfo": {"rank": 3}, "baseTimeNanoseconds": 10**15}
    return json.dumps(about | {"traceEvents": whole}).encode()


def _caliper() -> bytes:
    nodes = [line for line in CALIPER.splitlines(keepends=True) if line.startswith("__rec=node")]
    for number in range(CALLS):
        for ref, after in ((30, 0), (31, 1), (32, 2), (33, 4)):
            nodes.append(f"__rec=ctx,ref={ref},attr=25=26,data={10**7 * (number + 1) + 10**6 * after}=3\n")
    return "".join(nodes).encode()


MADE: dict[str, Callable[[], bytes]] = {
    "made.json": lambda: _written("made.json"),
    "made.pfw": lambda: _written("made.pfw"),
    "made.pftrace": lambda: _written("made.pftrace"),
    "made.pt.trace.json": _kineto,
    "made.cali": _caliper,
}
"""By the name of a file, what is in it where nothing is wrong."""
made = cache(lambda name: MADE[name]())


def _cut(text: bytearray, at: int, chance: Chance) -> None:
    del text[at:]


def _change(text: bytearray, at: int, chance: Chance) -> None:
    for place in chance.integers(at, min(at + 40, len(text)), size=int(chance.integers(1, 5))):
        text[place] = int(chance.integers(256))


def _insert(text: bytearray, at: int, chance: Chance) -> None:
    text[at:at] = chance.bytes(int(chance.integers(1, 60)))


def _leave_out(text: bytearray, at: int, chance: Chance) -> None:
    del text[at : at + int(chance.integers(1, 300))]


def _repeat(text: bytearray, at: int, chance: Chance) -> None:
    text[at:at] = text[at : at + int(chance.integers(1, 500))]


def _blank(text: bytearray, at: int, chance: Chance) -> None:
    length = min(int(chance.integers(1, 300)), len(text) - at)
    text[at : at + length] = bytes(length)


def _say_otherwise(text: bytearray, at: int, chance: Chance) -> None:
    """Another number, or what is none, in the place of digits."""
    digits = [place for place in range(at, min(at + 400, len(text))) if chr(text[place]).isdigit()]
    if digits:
        place = int(chance.choice(digits))
        values = (
            b"-1",
            b"1e400",
            b"99999999999999999999999",
            b"4611686018427387903",
            b"-4.6e15",
            b"4.6e15",
            b"NaN",
            b'"\\ud800"',
            b"null",
            b"[" * 50,
            b"{}",
        )
        text[place : place + 1] = values[int(chance.integers(len(values)))]


SPOILS: tuple[Spoil, ...] = (_cut, _change, _insert, _leave_out, _repeat, _blank, _say_otherwise)


def one_round(name: str, seed: int, folder: Path) -> None:
    """A file with something wrong from some place on: no more than a line, and all that came before it.

    Parameters
    ----------
    folder
        For its files; empty.
    """
    chance = np.random.default_rng(seed)
    whole = made(name)
    text, first = bytearray(whole), len(whole)
    for _ in range(int(chance.integers(1, 4))):
        at = int(chance.integers(len(text))) if text else 0
        if text:
            SPOILS[int(chance.integers(len(SPOILS)))](text, at, chance)
            first = min(first, at)
    (folder / "before").mkdir()
    before, spoilt = folder / "before" / name, folder / name
    before.write_bytes(whole[:first])
    spoilt.write_bytes(bytes(text))
    expected, found = _events(before), _events(spoilt)
    assert found[: len(expected)].tolist() == expected.tolist(), "what came before is there"
    if chance.integers(2):
        # A packed file that is cut off, or whose sum is wrong.
        packed = gzip.compress(bytes(text))
        spoilt = folder / f"{name}.gz"
        spoilt.write_bytes(packed[: int(chance.integers(20, len(packed) + 1))])
    try:
        result = convert([spoilt], folder / "streams", "program", PERIOD_US)
    except TraceFormatError as error:
        complaints = [str(error)]
    else:
        complaints = result.complaints
    for complaint in complaints:
        assert "\n" not in complaint and len(complaint) < 1_000, complaint


def otf2_round(seed: int, folder: Path) -> None:
    """An archive with something wrong in one of its files. Its library in C must not end the process."""
    chance = np.random.default_rng(seed)
    anchor = write_otf2(folder)
    files = sorted(path for path in anchor.parent.rglob("*") if path.is_file())
    spoilt = files[int(chance.integers(len(files)))]
    text = bytearray(spoilt.read_bytes())
    SPOILS[int(chance.integers(len(SPOILS)))](text, int(chance.integers(len(text))), chance)
    spoilt.write_bytes(bytes(text))
    reading = multiprocessing.get_context("fork").Process(target=_read, args=(anchor, folder / "streams"))
    reading.start()
    reading.join()
    assert reading.exitcode == 0, f"{spoilt.name}, seed {seed}"


def _read(path: Path, folder: Path) -> None:
    try:
        complaints = convert([path], folder, "program", PERIOD_US).complaints
    except TraceFormatError as error:
        complaints = [str(error)]
    assert not [complaint for complaint in complaints if "\n" in complaint]


def _events(path: Path) -> Table:
    """All that is read of a file."""
    try:
        return np.concatenate([NO_EVENTS, *events_of(path, Catalogue(), 0)])
    except TraceFormatError as error:
        assert "\n" not in str(error)
        return NO_EVENTS
