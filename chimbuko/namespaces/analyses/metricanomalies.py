"""Anomalies of what programs publish of their computation, rank by rank.

A quantity is a leaf by its path without ``Rank N``; where there is no such key the rank is the client's. Its
name says what is expected of it: the sum of ``local_…`` over all ranks is conserved, and ``…/min``, ``…/max``
(also with ``/value`` behind) are alike on all ranks. All have to be numbers: ``…/nan/value`` says if not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from chimbuko.namespaces.exchange.reader import Observation
from chimbuko.namespaces.metrics.finding import Finding
from chimbuko.namespaces.metrics.watch import MetricWatch, Role
from chimbuko.namespaces.tree.leaves import Leaf, elements
from chimbuko.namespaces.tree.paths import Path, format_path
from chimbuko.namespaces.tree.tree import Nested

STEP_KEYS = ("timestep", "step")
"""Leaves that say at which step of the program a publication was made."""
_RANK = re.compile(r"Rank (\d+)")
Samples = dict[int, dict[str, dict[int, float]]]
"""Step, quantity and rank to a value."""


def metric_anomalies(observations: Sequence[Observation]) -> Nested:
    """What was wrong, each thing once, as ``findings/N``; and in how many samples of how many ranks."""
    samples = _samples(observations)
    names = {name for of_step in samples.values() for name in of_step}
    ranks = sorted({rank for of_step in samples.values() for values in of_step.values() for rank in values})
    watch = MetricWatch({name: _role(name) for name in names}, len(ranks))
    found = [
        finding
        for step in sorted(samples)
        for finding in watch.take(
            step,
            {
                name: np.array([values[rank] for rank in ranks])
                for name, values in sorted(samples[step].items())
                if len(values) == len(ranks)
            },
        )
    ]
    return {
        "findings": {str(number): _described(finding, ranks) for number, finding in enumerate(found)},
        "samples": len(samples),
        "ranks": len(ranks),
    }


def _samples(observations: Sequence[Observation]) -> Samples:
    samples: Samples = defaultdict(lambda: defaultdict(dict))
    # What is not published has not changed.
    known: dict[int, dict[str, float]] = defaultdict(dict)
    counted: dict[int, int] = defaultdict(int)
    for observation in observations:
        steps: dict[int, int] = {}
        touched: set[int] = set()
        for path, leaf in observation.change.put.items():
            rank, rest = _of_rank(path, observation.rank)
            value = _number(rest, leaf)
            if value is None:
                continue
            touched.add(rank)
            if rest[-1] in STEP_KEYS:
                steps[rank] = int(value)
            else:
                known[rank][format_path(rest)] = value
        for rank in touched:
            step = steps.get(rank, counted[rank])
            counted[rank] += 1
            for name, value in known[rank].items():
                samples[step][name][rank] = value
    return samples


def _of_rank(path: Path, rank: int) -> tuple[int, Path]:
    for at, key in enumerate(path[:-1]):
        if found := _RANK.fullmatch(key):
            return int(found[1]), path[:at] + path[at + 1 :]
    return rank, path


def _number(path: Path, leaf: Leaf) -> float | None:
    if isinstance(leaf, str) or elements(leaf).size != 1:
        return None
    if isinstance(leaf, bool):
        is_flag = "nan" in path[-2:]
        return (float("nan") if leaf else 0.0) if is_flag else None
    return float(elements(leaf).ravel()[0])


def _role(name: str) -> Role:
    last = name.removesuffix("/value").split("/")[-1]
    if last.startswith("local_"):
        return Role.CONSERVED
    return Role.COMPARED if last in ("min", "max") else Role.NONE


def _described(finding: Finding, ranks: Sequence[int]) -> Mapping[str, object]:
    # The watch counts ranks from 0 on.
    named = tuple(ranks[place] for place in finding.ranks)
    finding = msgspec.structs.replace(finding, ranks=named)
    return {
        "kind": finding.kind.value,
        "quantity": finding.quantity,
        "ranks": np.array(named, np.int64),
        "since": finding.since,
        "step": finding.step,
        "change": finding.change,
        "sentence": finding.sentence,
    }
