"""For how long a program is held by what it publishes."""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise, product
from pathlib import Path

import msgspec

from benchmarks.measuring import interval
from benchmarks.publishing.service import service
from chimbuko.observe.namespaces.client.client import Client
from tests.integration.namespaces import Network, NotPermitted

FREQUENCIES = (1, 5, 50)
ITERATIONS = 500
VALUES = 24
"""That are updated in an iteration."""
COMPUTES_S = 0.001
"""What the program does between two commits."""
DELAY_S = 0.001
"""Of the link, each way."""


class Round(msgspec.Struct):
    """One round of one case."""

    frequency: int
    is_blocking: bool
    held_us: float
    """Per iteration."""
    messages: int


@dataclass(frozen=True)
class Held:
    """One case: mean and 95 % interval over the rounds, of the time per iteration."""

    frequency: int
    is_blocking: bool
    mean_us: float
    low_us: float
    high_us: float
    messages: int
    """In a round."""

    @property
    def as_object(self) -> dict[str, float]:
        """For JSON."""
        return asdict(self)


def held_by_place(folder: Path, rounds: int) -> tuple[dict[str, list[Held]], str]:
    """Cases by where the service is, and why one place is missing."""
    folder.mkdir()
    with service(folder / "local"):
        places = {"own node": _measured(folder / "local", rounds)}
    try:
        with (
            Network(2) as network,
            network.slow(1, DELAY_S, 0.0),
            network.inside(0),
            service(folder / "far", network.address(0)),
            network.inside(1),
        ):
            places["1 ms away"] = _measured(folder / "far", rounds)
    except NotPermitted as reason:
        return places, str(reason)
    return places, ""


def orderings(found: list[Held]) -> list[str]:
    """What is to be expected, and whether it was seen: rarer is cheaper, and so is not waiting."""
    cases = {(one.frequency, one.is_blocking): one for one in found}
    lines = []
    for is_blocking, name in ((True, "waiting"), (False, "not waiting")):
        for often, rarely in pairwise(FREQUENCIES):
            seen = _is_less(cases[rarely, is_blocking], cases[often, is_blocking])
            lines.append(f"{name}, every {rarely} ≤ every {often}: {seen}")
    for frequency in FREQUENCIES:
        seen = _is_less(cases[frequency, False], cases[frequency, True])
        lines.append(f"every {frequency}, not waiting ≤ waiting: {seen}")
    return lines


def _is_less(one: Held, other: Held) -> str:
    if one.high_us <= other.low_us:
        return "yes"
    return "NO" if one.low_us > other.high_us else "cannot be said, as the intervals overlap"


def measure(place: str, rounds: int) -> list[Round]:
    """All cases in turns, in an order of their own each time."""
    chance = random.Random(1)
    cases = list(product(FREQUENCIES, (True, False)))
    found = []
    for _ in range(rounds):
        chance.shuffle(cases)
        found += [_round(place, *case) for case in cases]
    return found


def _round(place: str, frequency: int, is_blocking: bool) -> Round:
    held_s = 0.0
    with Client(place) as client:
        namespace = client.create("application")
        namespace.set_publish_frequency(frequency)
        for iteration in range(ITERATIONS):
            until_s = time.perf_counter() + COMPUTES_S
            while time.perf_counter() < until_s:
                pass
            begin_s = time.perf_counter()
            for number in range(VALUES):
                namespace.update(("Rank 0", f"field {number}", "min"), iteration + 0.5 * number)
            if is_blocking:
                namespace.commit()
            else:
                namespace.commit_async()
            held_s += time.perf_counter() - begin_s
        client.close()
        messages = client.delivered
    return Round(frequency, is_blocking, 1e6 * held_s / ITERATIONS, messages)


def _measured(folder: Path, rounds: int) -> list[Held]:
    """In a process of its own, where this thread is now."""
    words = [sys.executable, "-m", "benchmarks.publishing.held", str(folder), str(rounds)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True)
    found = msgspec.json.decode(done.stdout, type=list[Round])
    return [_held([one for one in found if (one.frequency, one.is_blocking) == case]) for case in _CASES]


def _held(rounds: list[Round]) -> Held:
    values = [one.held_us for one in rounds]
    first = rounds[0]
    messages = {one.messages for one in rounds}
    assert messages == {-(-ITERATIONS // first.frequency)}, messages
    return Held(
        first.frequency, first.is_blocking, statistics.fmean(values), *interval(values), messages.pop()
    )


_CASES = tuple(product(FREQUENCIES, (True, False)))

if __name__ == "__main__":
    print(json.dumps([msgspec.to_builtins(one) for one in measure(sys.argv[1], int(sys.argv[2]))]))
