"""One quantity as its ranks publish it: each at its own pace, and some not at every step."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.observe.namespaces.analyses.metricfinding import Finding, FindingKey
from chimbuko.observe.namespaces.analyses.metricwatch import MetricWatch, Role

Look = Callable[[int, Mapping[str, npt.NDArray[np.float64]]], Iterator[Finding]]
"""Judge of the values of all ranks at a step, as ``MetricWatch.take`` is one."""
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
