"""Anomalies in the quantities that programs publish of their computation, rank by rank.

A quantity is a leaf by its path without ``Rank N``; where there is no such key the rank is the client's. Its
name says what is expected of it: the sum of ``local_…`` over all ranks is conserved, and ``…/min``, ``…/max``
(also with ``/value`` behind) are alike on all ranks. All have to be numbers: ``…/nan/value`` says if not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from chimbuko.observe.namespaces.analyses.metricfinding import Finding
from chimbuko.observe.namespaces.analyses.metricwatch import Role
from chimbuko.observe.namespaces.analyses.quantity import Quantity
from chimbuko.observe.namespaces.analyses.series import of_rank
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.tree.leaves import Leaf, elements
from chimbuko.observe.namespaces.tree.paths import Path, format_path
from chimbuko.observe.namespaces.tree.tree import Nested

STEP_KEYS = ("timestep", "step")
"""Leaves that give the step of the program at which a publication was made; publications that follow without
one belong to that step, too. If a client never gives a step, its publications are counted.
"""
Source = tuple[str, int]
"""Source of a publication: the client, and the rank for which it publishes."""


class MetricAnomalies:
    """Detector of anomalies in published quantities, publication by publication."""

    def __init__(self) -> None:
        self._quantities: dict[str, Quantity] = {}
        # What is not published has not changed.
        self._known: dict[Source, dict[str, float]] = defaultdict(dict)
        self._steps: dict[Source, int] = {}
        self._counted: dict[Source, int] = defaultdict(int)
        self._newest_client: dict[tuple[str, int], str] = {}
        """Client that last published each quantity of a rank: every program has its own quantities."""
        self.ranks: set[int] = set()
        """Ranks that have published a watched quantity."""

    def take(self, observation: Observation) -> Iterator[Finding]:
        """Add a publication, and yield the findings that it completes, each one once."""
        touched: set[Source] = set()
        for path, leaf in observation.change.put.items():
            rank, rest = of_rank(path, observation.rank)
            value = _number(rest, leaf)
            if value is None:
                continue
            source = observation.client, rank
            touched.add(source)
            if rest[-1] in STEP_KEYS and np.isfinite(value):
                self._steps[source] = int(value)
            else:
                self._known[source][format_path(rest)] = value
        for source in sorted(touched):
            step = self._steps.get(source, self._counted[source])
            self._counted[source] += 1
            for name, value in self._known[source].items():
                self.ranks.add(source[1])
                quantity = self._quantities.setdefault(name, Quantity(name, _role(name)))
                if self._is_begun_again(name, source, step):
                    quantity.restart()
                yield from quantity.take(source[1], step, observation.time_us, value)

    @property
    def samples(self) -> int:
        """Return the number of judged steps, of the quantity with the most of them."""
        return max((quantity.samples for quantity in self._quantities.values()), default=0)

    def finish(self) -> Iterator[Finding]:
        """Yield the findings in steps that still wait for other ranks, as no more publications will come."""
        for _, quantity in sorted(self._quantities.items()):
            yield from quantity.finish()

    def _is_begun_again(self, name: str, source: Source, step: int) -> bool:
        """Whether another client published this quantity of the rank before, at a later step: the program was
        started again.
        """
        client, rank = source
        before = self._newest_client.get((name, rank), client), rank
        self._newest_client[name, rank] = client
        if before == source:
            return False
        is_later = self._steps.get(before, self._counted[before]) > step
        # The client has ended: its quantities do not continue.
        del self._known[before][name]
        if not self._known[before]:
            for gone in (self._known, self._steps, self._counted):
                gone.pop(before, None)
        return is_later


def metric_anomalies(observations: Sequence[Observation]) -> Nested:
    """Return all findings, each one once, as ``findings/N``, with the number of samples and of ranks that
    were judged.
    """
    anomalies = MetricAnomalies()
    found = [finding for observation in observations for finding in anomalies.take(observation)]
    found += anomalies.finish()
    return {
        "findings": {str(number): _described(finding) for number, finding in enumerate(found)},
        "samples": anomalies.samples,
        "ranks": len(anomalies.ranks),
    }


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


def _described(finding: Finding) -> Mapping[str, object]:
    return {
        "kind": finding.kind.value,
        "quantity": finding.quantity,
        "ranks": np.array(finding.ranks, np.int64),
        "since": finding.since,
        "step": finding.step,
        "change": finding.change,
        "sentence": finding.sentence,
    }
