"""How often a comparison of two runs names a function that is slower by 10 %, and how often another one.

Run: python -m benchmarks.comparison [--runs N] [--recorded] [--live N]

Simulated runs, by how much a machine disturbs them: each of N runs is compared with each other one, and with
each of N runs in which one function is slower, takes 80 ms more in 0.7 % of its calls ("rarely"), is called
more often by 10 % ("more calls"), is slower on one rank or becomes so, or is called once and takes twice as
long. So are three of them, drawn by chance, with three others ("3 a
side"), as often as there are pairs.
--recorded does so with the recorded trace of the demo: as it is, and with one function lengthened. --live
lets the demo's program run N times in both variants.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.measuring import table
from chimbuko.provenance.compare.profilemerging import merged
from chimbuko.provenance.compare.runcomparison import Comparison, compare
from chimbuko.provenance.compare.runprofile import RunProfile, read_profile
from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from tests.lengthened import lengthen
from tests.simulated_runs import (
    PREEMPTED_US,
    Noise,
    SimulatedFunction,
    SimulatedRun,
    delayed,
    half_longer,
    log_normal,
    make_run,
    says_a_difference,
    two_modes,
)

ROOT = Path(__file__).parent.parent
SHARE = 0.1
NOISES = {
    "none": Noise(),
    "quiet machine": Noise(run=0.02, walk=0.01, function=0.005, function_walk=0.005, preempted=0.001),
    "shared machine": Noise(run=0.1, walk=0.05, function=0.01, function_walk=0.01, preempted=0.02),
    "busy machine": Noise(run=0.2, walk=0.1, function=0.015, function_walk=0.03, preempted=0.1),
}
FUNCTIONS = (
    SimulatedFunction("relax", log_normal(800.0, 0.1)),
    SimulatedFunction("apply", log_normal(18.0, 0.3)),
    SimulatedFunction("send", log_normal(25.0, 0.6), 200),
    SimulatedFunction("step", log_normal(2.2, 0.2)),
    SimulatedFunction("receive", log_normal(300.0, 1.2), 200),
    SimulatedFunction("residual", log_normal(11_000.0, 0.2), 10),
    SimulatedFunction("pack", log_normal(4.7, 0.2), 400),
    SimulatedFunction("sweep", two_modes(200.0, 0.1)),
)
OTHERWISE = "relax"
"""Function of which half of the calls, as those of one of two ranks, take longer, or that becomes slower in
the course of the run: its calls take as much longer on average as in the other cases."""
CALLED_MORE, MORE_CALLS = ("relax", "residual"), "more calls"
ONCE = "called once, twice as long"
SLOWED = ("relax", "step", "send", "sweep")
DELAYED = ("relax", "send")
DELAYED_SHARE, DELAY_US = 0.007, 80_000.0
SEVERAL = 3
"""Runs on each side, where there are several."""
RECORDED_SLOWED = ("relax_block", "jacobi_sweep", "pack_row")
HEAT = (
    "--traced",
    "--seed",
    "1",
    "--ranks",
    "1",
    "--rows",
    "256",
    "--columns",
    "256",
    "--iterations",
    "40000",
)


@dataclass
class Tally:
    """Of comparisons of one kind."""

    is_of_calls: bool = False
    """Whether the rows of time are asked, in which more calls are, and not those of runtimes."""
    comparisons: int = 0
    hits: int = 0
    """The slower function is named first."""
    false_names: int = 0
    """Another one is named, or where nothing has changed anything at all is said to differ."""

    def add(self, found: Comparison, slowed: str | None) -> None:
        """Count one."""
        named = [shift.name for shift in found.functions if shift.decisive.verdict in ("slower", "faster")]
        if self.is_of_calls:
            named = [row.name for row in found.times if row.verdict == "slower"]
        self.comparisons += 1
        self.hits += slowed is not None and bool(named) and slowed in named[0]
        self.false_names += (
            says_a_difference(found) if slowed is None else any(slowed not in name for name in named)
        )

    def row(self, name: str, slowed: str) -> tuple[str, ...]:
        """For the table."""
        hits = "" if slowed == "none" else f"{self.hits / self.comparisons:.0%}"
        return name, slowed, str(self.comparisons), hits, f"{self.false_names / self.comparisons:.1%}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10, help="simulated, of each kind")
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument(
        "--live", type=int, default=0, metavar="N", help="runs of the demo's program, of each kind"
    )
    options = parser.parse_args()
    if 0 < options.live < 2 * SEVERAL:
        parser.error(f"--live: {2 * SEVERAL} runs or more, for {SEVERAL} on each side")
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, noise in NOISES.items():
            rows += simulated(Path(folder), name, noise, options.runs)
        if options.recorded:
            rows += recorded(Path(folder))
        if options.live:
            rows += live(Path(folder), options.live)
    print(table(("runs", "slower by 10 %", "comparisons", "named first", "others named"), rows))


def simulated(folder: Path, name: str, noise: Noise, runs: int) -> list[tuple[str, ...]]:
    """By the law of each function and the noise of a machine."""
    seeds = itertools.count()

    def made(functions: Sequence[SimulatedFunction], slowed: str | None = None) -> list[RunProfile]:
        slower = {slowed: 1 + SHARE} if slowed else {}
        numbers = [next(seeds) for _ in range(runs)]
        return [
            replace(
                profile(make_run(folder / f"{name}-{seed}", functions, SimulatedRun(seed, noise, slower))),
                waited=_waited(functions, noise),
            )
            for seed in numbers
        ]

    before = made(FUNCTIONS)
    pairs: list[tuple[str | None, str, list[RunProfile]]] = [(None, "none", before)]
    pairs += [(slowed, slowed, made(FUNCTIONS, slowed)) for slowed in SLOWED]
    for late in DELAYED:
        delayed_runs = made([_delayed(one) if one.name == late else one for one in FUNCTIONS])
        pairs.append((late, f"{late}, rarely", delayed_runs))
    for more in CALLED_MORE:
        called = made([_called_more(one) if one.name == more else one for one in FUNCTIONS])
        pairs.append((more, f"{more}, {MORE_CALLS}", called))
    ways: dict[str, Callable[[SimulatedFunction], SimulatedFunction]] = {
        "on one of two ranks": lambda one: replace(one, draw=half_longer(one.draw, 2 * SHARE)),
        "in the course of the run": lambda one: replace(one, growth=2 * SHARE),
    }
    for title, way in ways.items():
        changed = made([way(one) if one.name == OTHERWISE else one for one in FUNCTIONS])
        pairs.append((OTHERWISE, f"{OTHERWISE}, {title}", changed))
    # It takes 0.8 of 13 s, twice as long afterwards.
    once = [SimulatedFunction("setup", log_normal(us, 0.02), 1, is_once=True) for us in (8e5, 16e5)]
    pairs.append(("setup", ONCE, made([*FUNCTIONS, once[1]])))
    first = {ONCE: made([*FUNCTIONS, once[0]])}
    return [
        how(first.get(title, before), after, slowed, title.endswith((MORE_CALLS, ONCE))).row(
            f"{name}{sides}", title
        )
        for sides, how in (("", compared), (", 3 a side", compared_in_threes))
        for slowed, title, after in pairs
    ]


def _waited(functions: Sequence[SimulatedFunction], noise: Noise) -> float:
    """What samples of the node would say: the share of the time that calls lose to others."""
    random = np.random.default_rng(0)
    calls = sum(one.calls_per_tick for one in functions)
    ran_us = sum(float(one.draw(random, 1000).mean()) * one.calls_per_tick for one in functions)
    waited_us = calls * noise.preempted * PREEMPTED_US
    return waited_us / (ran_us + waited_us)


def _delayed(function: SimulatedFunction) -> SimulatedFunction:
    return replace(function, draw=delayed(function.draw, DELAYED_SHARE, DELAY_US))


def _called_more(function: SimulatedFunction) -> SimulatedFunction:
    return replace(function, calls_per_tick=round((1 + SHARE) * function.calls_per_tick))


def recorded(folder: Path) -> list[tuple[str, ...]]:
    """The recorded trace of the demo, and the same with longer calls."""
    shutil.unpack_archive(ROOT / "tests" / "data" / "heat4.tar.xz", folder)
    before = [analysed(folder / "heat4", folder / "recorded")]
    rows = []
    for slowed in RECORDED_SLOWED:
        longer = folder / f"heat4-{slowed}"
        longer.mkdir()
        for stream in sorted((folder / "heat4").glob("*.bp")):
            lengthen(stream, longer / stream.name, slowed, SHARE)
        after = [analysed(longer, folder / f"recorded-{slowed}")]
        rows.append(compared(before, after, slowed).row("recorded, one lengthened", slowed))
    return rows


def live(folder: Path, runs: int) -> list[tuple[str, ...]]:
    """The demo's program, traced as it runs; both variants in turn, for the machine is never the same."""
    before, after = [], []
    for number in range(runs):
        for found, extra in ((before, ()), (after, ("--slower", f"relax={100 * SHARE:g}"))):
            output = folder / f"live-{number}-{len(extra)}"
            program = [sys.executable, str(ROOT / "examples" / "heat.py"), *HEAT, *extra]
            found.append(run(output, "--", *program))
    pairs: list[tuple[str | None, str, list[RunProfile]]] = [
        (None, "none", before),
        ("relax", "relax", after),
    ]
    return [
        how(before, runs_after, slowed).row(f"demo's program, live{title}", name)
        for title, how in (("", compared), (", 3 a side", compared_in_threes))
        for slowed, name, runs_after in pairs
    ]


def compared(
    before: Sequence[RunProfile], after: Sequence[RunProfile], slowed: str | None, is_of_calls: bool = False
) -> Tally:
    """Each with each, but none with itself."""
    tally = Tally(is_of_calls)
    for a, b in itertools.product(before, after):
        if a is not b:
            tally.add(compare(a, b), slowed)
    return tally


def compared_in_threes(
    before: Sequence[RunProfile], after: Sequence[RunProfile], slowed: str | None, is_of_calls: bool = False
) -> Tally:
    """Three with three others, drawn by chance."""
    tally, random = Tally(is_of_calls), Random(1)
    for _ in range(len(before) * len(after)):
        first = random.sample(before, SEVERAL)
        second = random.sample([run for run in after if not any(run is one for one in first)], SEVERAL)
        tally.add(compare(merged(first), merged(second)), slowed)
    return tally


def analysed(traces: Path, output: Path) -> RunProfile:
    """A recorded trace."""
    return run(output, "--trace", str(traces / "*.bp"))


def run(output: Path, *arguments: str) -> RunProfile:
    """``chimbuko run``."""
    command = [sys.executable, "-m", "chimbuko", "run", "--output", str(output), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return profile(RunDirectory(output))


def profile(directory: RunDirectory) -> RunProfile:
    """What a stored run is compared by."""
    with open_run(directory) as provenance:
        return read_profile(provenance)


if __name__ == "__main__":
    main()
