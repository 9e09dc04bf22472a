"""Anomalies in the quantities that programs publish of their computation, rank by rank.

A quantity is a leaf by its path without ``Rank N``; where there is no such key the rank is the client's. Its
name says what is expected of it: the sum of ``local_…`` over all ranks is conserved, and ``…/min``, ``…/max``
(also with ``/value`` behind) are alike on all ranks. All have to be numbers: ``…/nan/value`` says if not.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, FindingKey
from chimbuko.observe.namespaces.analyses.metricwatch import MetricWatch, Role
from chimbuko.observe.namespaces.analyses.standard import of_rank
from chimbuko.observe.namespaces.exchange.leaves import Leaf, elements
from chimbuko.observe.namespaces.exchange.namespacereader import Observation
from chimbuko.observe.namespaces.exchange.paths import Path, format_path
from chimbuko.observe.namespaces.exchange.tree import Nested

Look = Callable[[int, Mapping[str, npt.NDArray[np.float64]]], Iterator[Finding]]
"""Function that judges the values of all ranks at a step; ``MetricWatch.take`` is one."""
MOST_WAITING = 100
"""Most steps that wait for slow ranks; ranks that are further behind are left out."""
KEPT_TIMES = 1024
"""Most steps whose time of publication is remembered."""


class Quantity:
    """Collector of the values of single ranks, which judges a step once all ranks have come to it.

    The ranks are not known beforehand: when one joins or stays away, the usual behaviour is
    learned anew.
    """

    def __init__(self, name: str, role: Role) -> None:
        self._name = name
        self._role = role
        self._newest: dict[int, int] = {}
        """Newest step of each rank."""
        self._waiting: dict[int, dict[int, float]] = defaultdict(dict)
        self._judged = -1
        self._steps: list[int] = []
        self._times_us: dict[int, int] = {}
        self._found: set[FindingKey] = set()
        self.samples = 0
        """Number of judged steps."""
        self._learn_anew()

    def take(self, rank: int, step: int, time_us: int, value: float) -> Iterator[Finding]:
        """Add a value of a rank, and yield the findings that it completes."""
        if rank not in self._newest:
            self._newest[rank] = step
            self._learn_anew()
        self._newest[rank] = max(self._newest[rank], step)
        self._note_time(step, time_us)
        if step <= self._judged:
            # Too late to be compared with others.
            yield from self._look(step, {rank: value}, self._watch.take_some)
            return
        is_new = step not in self._waiting
        values = self._waiting[step]
        values[rank] = value
        # Otherwise no step can have become complete; with many ranks that holds for most values.
        if is_new or len(values) == len(self._ranks):
            if len(self._waiting) > MOST_WAITING:
                yield from self._leave_behind()
            # The newest step is left until somebody goes beyond: ranks may join in it.
            common = min(min(self._newest.values()), max(self._newest.values()) - 1)
            yield from self._judge(common)

    def restart(self) -> None:
        """Forget which steps were seen, as the program begins again, with any step."""
        self._newest.clear()
        self._waiting.clear()
        self._judged = -1
        self._steps.clear()
        self._times_us.clear()
        self._learn_anew()

    def finish(self) -> Iterator[Finding]:
        """Judge the steps that still wait, as no more values will come."""
        yield from self._judge(max(self._waiting, default=-1))

    def _learn_anew(self) -> None:
        self._ranks = sorted(self._newest)
        self._watch = MetricWatch({self._name: self._role}, len(self._ranks))

    def _leave_behind(self) -> Iterator[Finding]:
        """Drop the ranks that have not come as far as the oldest step that waits."""
        oldest = min(self._waiting)
        late = [rank for rank, newest in self._newest.items() if newest < oldest]
        for rank in late:
            del self._newest[rank]
        if late:
            self._learn_anew()
        else:
            yield from self._judge(oldest)

    def _judge(self, until: int) -> Iterator[Finding]:
        for step in sorted(step for step in self._waiting if step <= until):
            values = self._waiting.pop(step)
            self._judged = step
            self.samples += 1
            # In a step that not all ranks have published only values that are no numbers can be found.
            is_whole = all(rank in values for rank in self._ranks)
            yield from self._look(step, values, self._watch.take if is_whole else self._watch.take_some)

    def _look(self, step: int, values: Mapping[int, float], look: Look) -> Iterator[Finding]:
        of_ranks = np.array([values.get(rank, 0.0) for rank in self._ranks])
        for one in look(step, {self._name: of_ranks}):
            # The watch counts ranks from 0 on.
            found = msgspec.structs.replace(
                one,
                ranks=tuple(self._ranks[place] for place in one.ranks),
                begin_us=self._time_us(one.since),
                found_us=self._time_us(one.step),
            )
            if found.key not in self._found:
                self._found.add(found.key)
                yield found

    def _note_time(self, step: int, time_us: int) -> None:
        if step not in self._times_us:
            self._times_us[step] = time_us
            insort(self._steps, step)
            if len(self._steps) > KEPT_TIMES:
                del self._times_us[self._steps.pop(0)]

    def _time_us(self, step: int) -> int:
        """Return the time at which a step was published, in µs since the epoch; of a step that is too old the
        oldest known time.
        """
        at = bisect_right(self._steps, step)
        return self._times_us[self._steps[max(at - 1, 0)]] if self._steps else 0


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
