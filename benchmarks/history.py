"""What a history finds in a made-up year, and in short real runs; and how fast it answers.

Run: python -m benchmarks.history made [--seeds N ...] [--noise FIGURES] [--beside]
     python -m benchmarks.history figures INDEX FIGURES
     python -m benchmarks.history speed [--runs N]
     python -m benchmarks.history real FOLDER [--runs N]

``made``: 400 runs with twelve changes of three to four standard deviations in one to five of thirty
quantities, four of them reverted; after each run the history is asked. A change counts as found within five
runs; each change that is told where there is none is a false alarm. Noise is resampled, in blocks of five
runs, from the residuals of real runs, by default from a mixture with long tails. FIGURES may be
benchmarks/busyruns.json: 30 runs of each program of ``real``, beside eight other jobs on two cores;
``figures`` makes such a file of an index. ``--beside`` asks ruptures (PELT) and Apache Otava on the same
series, where they are installed: their places count as found wherever they lie within three runs of a change
of that quantity in the whole series, as neither is made to be asked after each run. ``speed``: an index of
many runs. ``real``: short runs of two programs in three versions each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.measuring import table
from chimbuko.core.arrays import Float64Array
from chimbuko.provenance.history.changepoints import change_points
from chimbuko.provenance.history.entry import Details, Entry, Version
from chimbuko.provenance.history.history import read_history
from chimbuko.provenance.history.index import Access, open_index

RUNS, QUANTITIES, CHANGES = 400, 30, 12
WITHIN, NEAR = 5, 3
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Change:
    """A change of the made-up year, in standard deviations of the noise."""

    at: int
    quantities: list[int]
    shift: float


@dataclass(frozen=True)
class Found:
    """What one method found in one made-up year."""

    method: str
    seed: int
    changes: int
    found: int
    """Within five runs; of methods that see the whole series, at all."""
    false_alarms: int
    cpu_s: float


def write_figures(index: Path, into: Path) -> None:
    """Keep what the history of each series in an index looks at, and the version of each run."""
    found = {}
    with open_index(str(index)) as opened:
        for one in opened.series():
            builds = [row.version.build for row in opened.runs(one.name, RUNS)]
            looked_at = read_history(opened, one.name, RUNS).quantities
            columns = {
                quantity.name: [None if value is None else round(value, 3) for value in quantity.values]
                for quantity in looked_at
            }
            found[one.name] = {"versions": [builds.index(build) for build in builds], "quantities": columns}
    into.write_text(json.dumps(found) + "\n")


def noise_of(figures: Path) -> Float64Array:
    """Residuals of real runs, in standard deviations, f8[runs, quantities]."""
    columns = []
    for one in json.loads(figures.read_text()).values():
        versions = np.array(one["versions"])
        for column in one["quantities"].values():
            # What is 0 in most runs has states, and no noise.
            if None in column or 2 * column.count(0.0) > len(column):
                continue
            values = np.log(np.array(column) + 0.01 * float(np.median(column)) + 1e-9)
            # Without what changed from version to version: real runs have changes, too.
            for version in set(one["versions"]):
                values[versions == version] -= np.median(values[versions == version])
            if values.std() > 1e-6:
                columns.append(values / values.std())
    shortest = min(map(len, columns))
    return np.stack([column[:shortest] for column in columns], axis=1)


def noise(seed: int, real: Float64Array | None) -> Float64Array:
    """Noise of a year, f8[runs, quantities], of standard deviation 1."""
    random = np.random.default_rng(seed)
    if real is None:
        made = random.lognormal(0.0, 0.5, (RUNS, QUANTITIES))
        is_far = random.random(made.shape) < 0.03
        made[is_far] *= random.lognormal(1.0, 0.5, int(is_far.sum()))
    else:
        chosen = random.integers(0, real.shape[1], QUANTITIES)
        begins = random.integers(0, len(real) - 5 + 1, (RUNS // 5, 1))
        made = real[(begins + np.arange(5)).ravel()][:, chosen]
    made -= np.median(made, axis=0)
    whole: Float64Array = made / made.std(axis=0)
    return whole


def year(seed: int, real: Float64Array | None) -> tuple[Float64Array, list[Change]]:
    """A made-up year, and its changes."""
    random = np.random.default_rng(1000 + seed)
    values = noise(seed, real)
    changes: list[Change] = []
    places = 30 + 30 * np.arange(CHANGES) + random.integers(0, 6, CHANGES)
    for number, at in enumerate(places.tolist()):
        if number % 3 == 2 and number < 12:
            # The one before is reverted.
            change = Change(at, changes[-1].quantities, -changes[-1].shift)
        else:
            some = random.choice(QUANTITIES, random.integers(1, 6), replace=False)
            change = Change(at, some.tolist(), float(random.choice([-1, 1]) * random.uniform(3.0, 4.0)))
        values[at:, change.quantities] += change.shift
        changes.append(change)
    return values, changes


def is_of(changes: list[Change], quantity: int, at: int) -> Change | None:
    """The change that a place is of."""
    return next((one for one in changes if quantity in one.quantities and abs(one.at - at) <= NEAR), None)


def run_by_run(seed: int, real: Float64Array | None) -> Found:
    """Ask the history after each run."""
    values, changes = year(seed, real)
    found: dict[int, int] = {}
    false: set[tuple[int, int]] = set()
    began = time.process_time()
    for runs in range(10, RUNS + 1):
        for point in change_points(values[:runs]):
            change = is_of(changes, point.quantity, point.at)
            if change is None:
                false.add((point.quantity, point.at // 10))
            else:
                found.setdefault(change.at, runs - change.at)
    in_time = sum(runs <= WITHIN for runs in found.values())
    return Found("chimbuko", seed, len(changes), in_time, len(false), time.process_time() - began)


def in_whole(
    method: str, seed: int, real: Float64Array | None, places: Callable[[Float64Array], list[int]]
) -> Found:
    """Ask another method once, quantity by quantity."""
    values, changes = year(seed, real)
    began = time.process_time()
    told = [(quantity, at) for quantity in range(QUANTITIES) for at in places(values[:, quantity])]
    kinds = [is_of(changes, *one) for one in told]
    found = {one.at for one in kinds if one is not None}
    return Found(method, seed, len(changes), len(found), kinds.count(None), time.process_time() - began)


def ruptures_places(column: Float64Array) -> list[int]:
    """PELT with the usual penalty, 2 ln n variances."""
    import ruptures

    # Most runs of what happens seldom are equal.
    spread = max(float(np.median(np.abs(np.diff(column))) / 0.954), 0.1 * float(column.std()))
    fitted = ruptures.Pelt(model="l2", min_size=3, jump=1).fit(column / spread)
    return list(fitted.predict(pen=2 * np.log(len(column)))[:-1])


def otava_places(column: Float64Array) -> list[int]:
    """E-divisive with Otava's defaults."""
    from otava.analysis import compute_change_points

    found, _ = compute_change_points(list(column), window_len=30, max_pvalue=0.001, min_magnitude=0.0)
    return [point.index for point in found]


def made(seeds: Iterable[int], real: Float64Array | None, is_beside: bool) -> list[Found]:
    """All methods on all years."""
    found = [run_by_run(seed, real) for seed in seeds]
    others = (("ruptures", ruptures_places), ("otava", otava_places)) if is_beside else ()
    for name, places in others:
        for seed in seeds:
            try:
                found.append(in_whole(name, seed, real, places))
            except ImportError as error:
                print(f"{name}: left out ({error})", file=sys.stderr)
                break
    return found


def fill(place: Path, runs: int) -> None:
    """An index of runs of one program on 16 of 40 nodes, half of them of other series."""
    random = np.random.default_rng(1)
    functions = [f"f{number}" for number in range(24)]
    with open_index(str(place), Access.MAKE) as index:
        index._connection.execute("PRAGMA synchronous=OFF")
        for number in range(runs):
            times = {f"function {name}": 1e5 * (1 + 0.05 * random.normal()) for name in functions}
            parts = {f"part {name}_us": 3e5 * (1 + 0.05 * random.normal()) for name in ("computing", "io")}
            nodes = random.choice(40, 16, replace=False).tolist()
            paces = {
                name: {f"n{node:02}": round(1 + 0.02 * random.normal(), 4) for node in nodes}
                for name in functions[:12]
            }
            index.write(
                Entry(
                    *(f"{number:012x}", f"run-{number}", "/data"),
                    key=f"k{number % 5}" if number < runs // 2 else "k9",
                    start_key="s",
                    title="64 ranks on 16 nodes",
                    program="heat2d",
                    started_us=1_700_000_000_000_000 + number * DAY_US // 10,
                    is_good=True,
                    quantities={"wall": 1e6 * (1 + 0.02 * random.normal()), **parts, **times},
                    version=Version(commit=f"{number // 100:02x}" * 20),
                    details=Details(paces=paces),
                    model=bytes(20_000),
                )
            )


def speed(runs: int) -> dict[str, float]:
    """Seconds that a history takes, the least of five times, and of these the CPU's."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "history.sqlite"
        fill(place, runs)
        command = [sys.executable, "-m", "chimbuko", "history", "heat2d-6"]
        environment = os.environ | {"CHIMBUKO_HISTORY": str(place)}
        walls, cpus = [], []
        for _ in range(5):
            began, before = time.perf_counter(), os.times()
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
            after = os.times()
            walls.append(time.perf_counter() - began)
            cpus.append(
                after.children_user + after.children_system - before.children_user - before.children_system
            )
        return {
            "runs": runs,
            "wall_s": min(walls),
            "cpu_s": min(cpus),
            "index_mb": place.stat().st_size / 1e6,
        }


PROGRAMS = {
    "stencil": "def solve(n):\n    return sum(i * i for i in range(n))\n"
    "def store(k):\n    time.sleep(0.001)\n"
    "for k in range(150):\n    solve({work})\n    store(k)\n",
    "sorter": "def fill(n):\n    return [(i * 7919) % n for i in range(n)]\n"
    "def order(values):\n    return sorted(values)\n"
    "for k in range(120):\n    order(fill({work}))\n",
}
WORK = {"stencil": (4000, 5600, 4000), "sorter": (6000, 6000, 8400)}
"""Work of each version: the second is slower and the third as before, or the third is slower."""


def real(folder: Path, runs: int) -> dict[str, list[str]]:
    """Run both programs, a third of the runs in each version, one in turn with the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(runs):
        name = list(PROGRAMS)[number % 2]
        version = number * 3 // runs
        (folder / f"{name}.py").write_text("import time\n" + PROGRAMS[name].format(work=WORK[name][version]))
        command = [sys.executable, "-m", "chimbuko", "run", "--no-dashboard", f"{name}.py"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Names of runs are of the second they began in.
        time.sleep(1.0)
    told = {}
    for name in PROGRAMS:
        command = [sys.executable, "-m", "chimbuko", "history", name, "--json"]
        done = subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE, text=True)
        told[name] = [one["sentence"] for one in json.loads(done.stdout)["changes"]]
    return told


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true")
    parts = parser.add_subparsers(dest="part", required=True)
    of_year = parts.add_parser("made")
    of_year.add_argument("--seeds", type=int, nargs="+", default=range(5), metavar="N")
    of_year.add_argument("--noise", type=Path)
    of_year.add_argument("--beside", action="store_true")
    of_figures = parts.add_parser("figures")
    of_figures.add_argument("index", type=Path)
    of_figures.add_argument("into", type=Path)
    parts.add_parser("speed").add_argument("--runs", type=int, default=10_000)
    of_real = parts.add_parser("real")
    of_real.add_argument("folder", type=Path)
    of_real.add_argument("--runs", type=int, default=60)
    options = parser.parse_args()
    if options.part == "made":
        given = None if options.noise is None else noise_of(options.noise)
        found = made(options.seeds, given, options.beside)
        if options.json:
            print(json.dumps([asdict(one) for one in found]))
            return
        rows: list[tuple[str, ...]] = [
            (
                one.method,
                str(one.seed),
                f"{one.found} of {one.changes}",
                str(one.false_alarms),
                f"{one.cpu_s:.1f}",
            )
            for one in found
        ]
        print(table(("method", "seed", "found", "false alarms", "CPU s"), rows))
    elif options.part == "figures":
        write_figures(options.index, options.into)
    elif options.part == "speed":
        print(json.dumps(speed(options.runs)))
    else:
        print(json.dumps(real(options.folder, options.runs), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
