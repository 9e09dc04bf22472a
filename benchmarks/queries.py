"""Milliseconds to the first page of a list of calls, and to sums over them, by what is asked.

Run: python -m benchmarks.queries [--anomalies N] [--ranks N] [--store URL] [--rounds N]

Each question is asked in turn, in each round with other values (ranks, functions, times), so that no answer
is ready. The last column compares with the same question as a program without indexes or sums would answer
it: by looking at all calls.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from sqlalchemy import func, select

from benchmarks.madestore import PERIOD_US, RUN_ID, START_US, MadeStore
from benchmarks.store import record
from chimbuko.provenance.query.filters import CallFilter
from chimbuko.provenance.query.run import Provenance
from chimbuko.provenance.store.engine import close, open_for_reading, open_for_writing
from chimbuko.provenance.store.tables import CALLS
from chimbuko.provenance.write.writer import Writer

Question = Callable[[Provenance, Random], object]


def questions(made: MadeStore) -> dict[str, Question]:
    """Name to what is asked."""
    nodes = made.ranks // made.ranks_per_node

    def function(random: Random) -> str:
        return made.function_name(random.randrange(made.functions))

    def steps(random: Random, length: int) -> dict[str, int]:
        first = random.randrange(made.steps - length)
        return {"step_min": first, "step_max": first + length}

    def times(random: Random, length_s: int) -> dict[str, int]:
        first_us = START_US + random.randrange(made.steps - length_s) * PERIOD_US
        return {"time_min_us": first_us, "time_max_us": first_us + length_s * PERIOD_US}

    filters: dict[str, Callable[[Random], CallFilter]] = {
        "all": lambda random: CallFilter(),
        "program": lambda random: CallFilter(program=0),
        "rank": lambda random: CallFilter(rank=random.randrange(made.ranks)),
        "node": lambda random: CallFilter(node=f"node{random.randrange(nodes):04d}"),
        "node pattern": lambda random: CallFilter(node=f"node*{random.randrange(10)}"),
        "thread": lambda random: CallFilter(thread=0),
        "function": lambda random: CallFilter(function=function(random)),
        "function pattern": lambda random: CallFilter(function=f"*stage_{random.randrange(10)}*"),
        "call path": lambda random: CallFilter(path=random.randrange(1000)),
        "caller": lambda random: CallFilter(through=function(random)),
        "step": lambda random: CallFilter(**steps(random, 0)),
        "100 steps": lambda random: CallFilter(**steps(random, 100)),
        "half of the steps": lambda random: CallFilter(**steps(random, made.steps // 2)),
        "1 s": lambda random: CallFilter(**times(random, 1)),
        "60 s": lambda random: CallFilter(**times(random, 60)),
        "score": lambda random: CallFilter(min_score=random.uniform(5, 40)),
        "severity": lambda random: CallFilter(min_severity_us=random.uniform(1e3, 1e6)),
        "GPU": lambda random: CallFilter(is_gpu=True),
        "open": lambda random: CallFilter(is_open=True),
        "text": lambda random: CallFilter(text=f"STAGE_{random.randrange(made.functions)}("),
        "normal": lambda random: CallFilter(label="normal"),
        "any label": lambda random: CallFilter(label=None),
        "function and rank": lambda random: CallFilter(
            function=function(random), rank=random.randrange(made.ranks)
        ),
        "function and 60 s": lambda random: CallFilter(function=function(random), **times(random, 60)),
    }
    asked: dict[str, Question] = {
        f"page: {name}": lambda run, random, make=make: run.calls.page(make(random))  # type: ignore[misc]
        for name, make in filters.items()
    }
    for sort in ("score", "entry_us", "exclusive_us", "inclusive_us", "step"):
        asked[f"page: all, by {sort}"] = lambda run, random, sort=sort: run.calls.page(  # type: ignore[misc]
            CallFilter(), sort=sort, descending=random.random() < 0.5
        )
    for by in ("function", "rank", "node", "path", "step", "time"):
        asked[f"sums by {by}"] = lambda run, random, by=by: run.calls.totals(by)  # type: ignore[misc]
    asked["sums by function of a rank"] = lambda run, random: run.calls.totals(
        "function", CallFilter(rank=random.randrange(made.ranks))
    )
    asked["sums by time of a function"] = lambda run, random: run.calls.totals(
        "time", CallFilter(function=function(random))
    )
    asked["number: all"] = lambda run, random: run.calls.count(CallFilter())
    asked["number: a function"] = lambda run, random: run.calls.count(CallFilter(function=function(random)))
    asked["statistics of ranks"] = lambda run, random: run.steps.rank_statistics()
    return asked


def look_at_all(provenance: Provenance) -> float:
    """Milliseconds to sort all calls by what no index has."""
    call = CALLS.c
    statement = select(call.id).order_by(call.spread_us + func.abs(call.severity_us)).limit(50)
    began = time.perf_counter()
    provenance.reader.rows(statement)
    return (time.perf_counter() - began) * 1e3


def main() -> None:
    """Make a store, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--anomalies", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--store", help="URL of an empty store; default: an SQLite file")
    options = parser.parse_args()
    made = MadeStore(anomalies=options.anomalies, ranks=options.ranks)
    with tempfile.TemporaryDirectory() as folder:
        url = options.store or f"sqlite:///{Path(folder) / 'provenance.sqlite'}"
        engine = open_for_writing(url)
        began = time.perf_counter()
        made.write(Writer(engine, RUN_ID), record(0))
        print(f"{made.anomalies:,} anomalies of {made.ranks:,} ranks, in {time.perf_counter() - began:.0f} s")
        close(engine)
        with Provenance(open_for_reading(url)) as provenance:
            measure(provenance, made, options.rounds)


def measure(provenance: Provenance, made: MadeStore, rounds: int) -> None:
    """Ask everything, some times, and print a table."""
    asked = questions(made)
    taken: dict[str, list[float]] = {name: [] for name in asked}
    everything = []
    random = Random(1)
    for _ in range(rounds):
        everything.append(look_at_all(provenance))
        for name, ask in asked.items():
            began = time.perf_counter()
            ask(provenance, random)
            taken[name].append((time.perf_counter() - began) * 1e3)
    all_ms = statistics.median(everything)
    print("| question | median ms | highest ms | of looking at all |\n|---|---|---|---|")
    for name, times_ms in taken.items():
        median = statistics.median(times_ms)
        print(f"| {name} | {median:.1f} | {max(times_ms[1:]):.1f} | 1/{all_ms / median:,.0f} |")
    print(f"\nMedians of {rounds} rounds; looking at all calls takes {all_ms:,.0f} ms.")


if __name__ == "__main__":
    main()
