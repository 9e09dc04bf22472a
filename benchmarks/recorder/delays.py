"""Delays injected into programs of others, and how many of them a run finds in the function where they were.

A first, unrecorded run tells by looks at the stack which functions hold at least 1 % of the time, with what
they call. Then, before anything is recorded, the seed fixes functions among these and moments in the run: the
next call of the function after the moment spins for 10 to 30 ms at its beginning. A call that does not come
any more is not counted.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.measuring import table
from chimbuko.capture.symbols.binary import Binary
from chimbuko.capture.symbols.lookup import demangled
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory

SOURCE = Path(__file__).with_suffix(".c")
LEAST_SHARE = 0.01
SHORTEST_S, LONGEST_S = 0.010, 0.030
DELAYS = 20
"""Delays of each run."""
BEGIN, END = 0.2, 0.95
"""Moments of delays, as shares of the run's length."""
TOLERANCE_US = 2_000
SLEDS = {b"\x90\x90": 2, b"\x66\x90": 2, b"\xeb\x09": 11}
"""Bytes of the beginnings that compilers prepare, and after how many bytes the function itself begins."""
RUN = [sys.executable, "-m", "chimbuko", "run", "--no-dashboard", "--output"]
TRACE = [sys.executable, "-m", "chimbuko", "trace"]


@dataclass(frozen=True)
class Injected:
    """A delay that has happened."""

    function: str
    start_us: int
    end_us: int


@dataclass
class Found:
    """What became of the delays of a program's runs."""

    delays: int = 0
    in_function: int = 0
    in_caller: int = 0
    other_flags: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    """By function."""


class Program:
    """A program with its functions' places; ``command`` begins with its file."""

    def __init__(self, command: str, library: Path) -> None:
        self.words = shlex.split(command)
        self.words[0] = str(Path(self.words[0]).resolve())
        self._library = library
        self.length_s = 0.0
        self.places: dict[str, int] = {}
        """Beginning of each prepared function that holds its share of the time, by its name."""

    def look(self, folder: Path) -> None:
        """Run the program, and see which functions hold its time."""
        output = folder / "looks"
        began_s = time.monotonic()
        self._run(self.words, folder, {"DELAYS_OUTPUT": str(output)})
        self.length_s = time.monotonic() - began_s
        binary = Binary(Path(self.words[0]))
        symbols = binary.symbols()
        stacks = output.read_text().splitlines()
        held: Counter[int] = Counter()
        for stack in stacks:
            addresses = [int(word, 16) for word in stack.split()]
            held.update({at for address in addresses if (at := _entry(symbols.entries, address)) is not None})
        for entry, looks in held.items():
            symbol = symbols.at(entry)
            after = SLEDS.get(_bytes_at(binary, entry, 2))
            if symbol is not None and after is not None and looks >= LEAST_SHARE * len(stacks):
                self.places[demangled(symbol.name)] = entry + after

    def delayed(self, folder: Path, draw: random.Random) -> tuple[list[Injected], Path]:
        """Run the program recorded with delays; return those that happened, and the run's folder."""
        names = sorted(self.places)
        chosen = sorted(
            (
                draw.uniform(BEGIN, END) * self.length_s,
                draw.uniform(SHORTEST_S, LONGEST_S),
                draw.choice(names),
            )
            for _ in range(DELAYS)
        )
        output, run = folder / "delays", folder / "run"
        places = " ".join(
            f"{at_s:.6f} {length_s:.6f} {self.places[name]:x}" for at_s, length_s, name in chosen
        )
        variables = {"DELAYS_OUTPUT": str(output), "DELAYS": places}
        self._run([*RUN, str(run), "--", *TRACE, *self.words], folder, variables)
        rows = [line.split() for line in output.read_text().splitlines()] if output.exists() else []
        return [Injected(chosen[int(number)][2], int(start), int(end)) for number, start, end in rows], run

    def _run(self, words: Sequence[str], folder: Path, variables: dict[str, str]) -> None:
        own = {"DELAYS_PROGRAM": self.words[0], "LD_PRELOAD": str(self._library)} | variables
        done = subprocess.run(words, cwd=folder, env={**os.environ, **own}, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{shlex.join(words)} has failed: {done.stderr}")


def _entry(entries: Sequence[int], address: int) -> int | None:
    found = int(entries.searchsorted(address, side="right")) - 1  # type: ignore[attr-defined]
    return int(entries[found]) if found >= 0 else None


def _bytes_at(binary: Binary, address: int, count: int) -> bytes:
    for offset, begin, size in binary.segments:
        if begin <= address < begin + size:
            return bytes(binary.data[offset + address - begin :][:count])
    return b""


def judged(delays: Sequence[Injected], run: Path, found: Found) -> None:
    """Add what a run has found of its delays."""
    with open_run(RunDirectory(run)) as provenance:
        flagged = list(provenance.calls.records(CallFilter(label="anomaly")))
    used = set()
    for delay in delays:
        found.delays += 1
        around = [
            call
            for call in flagged
            if call.entry_us <= delay.start_us + TOLERANCE_US
            and (call.exit_us == 0 or call.exit_us >= delay.end_us - TOLERANCE_US)
        ]
        used |= {call.id for call in around}
        if any(call.function.startswith(delay.function) for call in around):
            found.in_function += 1
        elif around:
            found.in_caller += 1
        else:
            found.missed[delay.function] += 1
    found.other_flags += len({call.id for call in flagged} - used)


def delays(programs: Sequence[tuple[str, str]], rounds: int, seed: int) -> dict[str, Found]:
    """Delays found in each program, given its name and command, in so many runs."""
    results = {}
    with tempfile.TemporaryDirectory(prefix="chimbuko-delays-") as name:
        library = Path(name) / "delays.so"
        compiler = shutil.which("cc") or sys.exit("no cc")
        subprocess.run([compiler, "-O2", "-fPIC", "-shared", SOURCE, "-o", library, "-lrt"], check=True)
        for title, command in programs:
            program = Program(command, library)
            program.look(Path(name))
            found = results[title] = Found()
            for number in range(rounds):
                with tempfile.TemporaryDirectory(dir=name) as folder:
                    happened, run = program.delayed(Path(folder), random.Random(f"{seed} {title} {number}"))
                    judged(happened, run, found)
    return results


def delays_table(results: dict[str, Found]) -> str:
    """Delays found, in their function and in a caller of it."""
    rows = [
        (
            title,
            str(found.delays),
            f"{found.in_function} ({100 * found.in_function / max(found.delays, 1):.0f} %)",
            str(found.in_caller),
            ", ".join(f"{name} {count}" for name, count in found.missed.most_common()) or "none",
            str(found.other_flags),
        )
        for title, found in results.items()
    ]
    heads = ("program", "delays", "found in their function", "in a caller", "missed", "other flags")
    return table(heads, rows)


def as_json(results: dict[str, Found]) -> str:
    """All that was found."""
    return json.dumps({title: vars(found) for title, found in results.items()})
