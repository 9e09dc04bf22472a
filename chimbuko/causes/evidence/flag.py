"""A flagged call, or what else lost time: as much of it as causes need.

Flagged calls by the time that they lost, so that those of an interval are found at once.

What ranks lost as their node kept them from running, by its samples: in the same terms as calls.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chimbuko.causes.part import HeldUp
from chimbuko.core.calls.record import CallRecord, Collective, Message, judged_us
from chimbuko.core.calls.schema import Label
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.monitor.samples.nodebatch import SAMPLED_US, NodeBatch, RankLoss

LEAST_UNFLAGGED_US = 5_000.0
"""Calls that lost less are left alone, unless they are flagged."""
GAP_SHARE = 0.5
"""Of the excess that must lie in one gap between the calls inside it, to have been lost there."""

_CLOCK = re.compile(r"TIME|CLOCK|CYC|TSC|ENERGY", re.IGNORECASE)
"""Metrics that rise as time passes, whatever is done."""
_MOVED = re.compile(r"Bytes (Read|Written)")
"""In names of TAU's counters of files, some of which have the file in them."""


@dataclass(frozen=True, slots=True)
class Child:
    """A call that the flagged one made itself, as far as its window has it."""

    function: str
    entry_us: int
    exit_us: int


@dataclass(frozen=True, slots=True)
class Flag:
    """One call that lost time. Times in µs since 1970 on its rank's clock, but for the common ones."""

    id: str
    program: int
    rank: int
    thread: int
    node: str
    function: str
    entry_us: int
    exit_us: int
    """Of an open call: as far as it was seen."""
    exclusive_us: int
    judged_us: float
    """The runtime by which it was judged: exclusive, or inclusive."""
    expected_us: float
    excess_us: float
    """What of that was not expected: the time that is to be explained."""
    is_exclusive: bool
    """Judged without the calls inside it."""
    ancestors: tuple[tuple[str, str], ...]
    """Id and function of the calls around it, innermost first."""
    children: tuple[Child, ...]
    """In order of time, as far as the window has them."""
    calls_made: int
    """How many there were."""
    messages: tuple[Message, ...]
    """Sent and received in it, not in calls inside it."""
    waits: Waits
    lost_from_us: int
    lost_to_us: int
    """Where in the call the excess lies, as far as its window tells."""
    collectives: tuple[Collective, ...] = ()
    """Entered in it, not in calls inside it; only where the trace has them."""
    ahead_us: int = 0
    """By how much the clock of its rank is ahead of the common one."""
    is_flagged: bool = True
    """Whether it is abnormal; else it belongs to an incident only with one that is: as what that one waited
    for, or as another one that waited."""
    is_gpu: bool = False
    """Whether it ran on a GPU."""
    counted: tuple[tuple[str, int], ...] = ()
    """By how much counters rose in it alone: metrics but for clocks, and bytes of files."""
    loss: HeldUp | None = None
    """Of what is no call, but time in which its node kept the rank from running, whatever calls it was in: by
    what. None of a call."""

    @property
    def common_entry_us(self) -> int:
        """On the clock that all ranks have in common, as those that follow."""
        return self.entry_us - self.ahead_us

    @property
    def common_exit_us(self) -> int:
        """When it was left."""
        return self.exit_us - self.ahead_us

    @property
    def common_from_us(self) -> int:
        """Where its excess begins."""
        return self.lost_from_us - self.ahead_us

    @property
    def common_to_us(self) -> int:
        """Where its excess ends."""
        return self.lost_to_us - self.ahead_us

    @property
    def lost_share(self) -> float:
        """Of its time that was lost: of a call all of the part that its excess lies in."""
        if self.loss is None:
            return 1.0
        return min(1.0, self.excess_us / max(1, self.lost_to_us - self.lost_from_us))

    @property
    def has_all_children(self) -> bool:
        """Whether the window has all calls that it made."""
        return len(self.children) == self.calls_made

    @property
    def size_bytes(self) -> int:
        """Bytes that it sent, or else received: of these a trace may give the room that there was."""
        for kind in ("SEND", "RECV"):
            sizes = [message.size_bytes for message in self.messages if message.kind == kind]
            if sizes:
                return sum(sizes)
        return 0

    @property
    def inclusive_us(self) -> int:
        """Runtime with the calls inside it."""
        return self.exit_us - self.entry_us

    @property
    def is_wait(self) -> bool:
        """Whether it is a call in which ranks wait for each other."""
        return self.waits is not Waits.NOT

    @property
    def caller(self) -> str:
        """Function around it; empty without one."""
        return self.ancestors[0][1] if self.ancestors else ""

    @property
    def operation(self) -> str:
        """What the program called: of a part that a tool adds to a library's call that call, else itself."""
        is_part = self.is_wait and not self.function.startswith("MPI_")
        return self.caller if is_part and self.caller.startswith("MPI_") else self.function

    def overlap_us(self, other: Flag) -> int:
        """How long both lost time together."""
        end_us = min(self.common_to_us, other.common_to_us)
        return max(0, end_us - max(self.common_from_us, other.common_from_us))


def flag_of(record: CallRecord) -> Flag:
    """What of a record matters for its cause."""
    exit_us = record.exit_us or record.entry_us + record.inclusive_us
    children = tuple(
        Child(call.function, call.entry_us, call.exit_us or exit_us)
        for call in record.window
        if call.parent_id == record.id
    )
    runtime_us = judged_us(record.expected_us, record.severity_us)
    is_exclusive = abs(runtime_us - record.exclusive_us) <= abs(runtime_us - record.inclusive_us)
    has_all = len(children) == record.children
    lost_from_us, lost_to_us = record.entry_us, exit_us
    gaps = _gaps(record.entry_us, exit_us if has_all else None, children)
    if gaps:
        begin_us, end_us = max(gaps, key=lambda gap: gap[1] - gap[0])
        # Else it may have lost its time in the calls inside it, or behind the last one that is known.
        if (is_exclusive and has_all) or end_us - begin_us >= GAP_SHARE * record.severity_us:
            lost_from_us, lost_to_us = begin_us, end_us
    return Flag(
        id=record.id,
        program=record.program,
        rank=record.rank,
        thread=record.thread,
        node=record.node,
        function=record.function,
        entry_us=record.entry_us,
        exit_us=exit_us,
        exclusive_us=record.exclusive_us,
        judged_us=runtime_us,
        expected_us=record.expected_us,
        excess_us=record.severity_us,
        is_exclusive=is_exclusive,
        ancestors=tuple((frame.id, frame.function) for frame in record.call_stack[1:]),
        children=children,
        calls_made=record.children,
        messages=tuple(message for message in record.messages if message.call_id == record.id),
        waits=waits_in(record.function),
        lost_from_us=lost_from_us,
        lost_to_us=lost_to_us,
        collectives=tuple(one for one in record.collectives if one.call_id == record.id),
        is_flagged=record.label is Label.ANOMALY,
        is_gpu=record.is_gpu,
        counted=_counted(record),
    )


def may_matter(flag: Flag) -> bool:
    """Whether a call is flagged, or lost so much that it may be what flagged ones waited for, or have waited
    for the same.
    """
    return flag.is_flagged or flag.excess_us >= max(LEAST_UNFLAGGED_US, flag.expected_us)


def _counted(record: CallRecord) -> tuple[tuple[str, int], ...]:
    amounts = Counter[str]()
    # Of a call that made others a metric has only what is behind the last one.
    for metric in () if record.children else record.metrics:
        if _CLOCK.search(metric.counter) is None:
            amounts[metric.counter] += metric.value
    for value in record.counters:
        moved = _MOVED.search(value.counter) if value.call_id == record.id else None
        if moved is not None:
            amounts[moved[0]] += value.value
    return tuple(amounts.items())


def _gaps(entry_us: int, exit_us: int | None, children: tuple[Child, ...]) -> list[tuple[int, int]]:
    """Stretches of a call outside of its children; of the first ones alone, as windows have them, without
    the one behind the last, whose end (``exit_us``) is another call then.
    """
    ends = [entry_us, *(child.exit_us for child in children)]
    begins = [child.entry_us for child in children] + ([] if exit_us is None else [exit_us])
    return list(zip(ends, begins, strict=False))


_Entry = tuple[int, str, Flag]


class FlagIndex:
    """Calls in order of the beginning of their lost time; all times are on the common clock."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._longest_us = 0

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, flag: Flag) -> None:
        """Another call."""
        insort(self._entries, (flag.common_from_us, flag.id, flag))
        self._longest_us = max(self._longest_us, flag.lost_to_us - flag.lost_from_us)

    def discard(self, flag: Flag) -> None:
        """Not this one any longer."""
        at = bisect_left(self._entries, (flag.common_from_us, flag.id))
        if at < len(self._entries) and self._entries[at][1] == flag.id:
            del self._entries[at]
        if not self._entries:
            self._longest_us = 0

    def during(self, begin_us: int, end_us: int) -> list[Flag]:
        """Those that lost time in an interval."""
        first = bisect_left(self._entries, (begin_us - self._longest_us, ""))
        last = bisect_left(self._entries, (end_us, ""))
        return [flag for *_, flag in self._entries[first:last] if flag.common_to_us > begin_us]


MAIN_THREAD = 0
_FIRST = "L"
"""Of ids, which no call has."""


def losses_in(batch: NodeBatch) -> Iterator[Flag]:
    """Those that a node reports."""
    for loss in batch.losses:
        yield _flag_of_loss(loss, batch.node)


def sampled_part(loss: Flag) -> Flag:
    """The beginning of a loss, of which there are samples: as much was lost there as in all of it."""
    to_us = min(loss.lost_to_us, loss.lost_from_us + SAMPLED_US)
    share = (to_us - loss.lost_from_us) / max(1, loss.lost_to_us - loss.lost_from_us)
    return replace(loss, lost_to_us=to_us, excess_us=share * loss.excess_us)


def is_loss_id(call_id: str) -> bool:
    """Whether this is no call."""
    return call_id.startswith(_FIRST)


def _flag_of_loss(loss: RankLoss, node: str) -> Flag:
    kind = HeldUp.STOPPED if loss.is_stopped else HeldUp.WAITED_FOR_CORE
    return Flag(
        id=f"{_FIRST}{loss.program}:{loss.rank}:{loss.begin_us}{kind.value[0]}",
        program=loss.program,
        rank=loss.rank,
        thread=MAIN_THREAD,
        node=node,
        function="",
        entry_us=loss.begin_us,
        exit_us=loss.end_us,
        exclusive_us=loss.lost_us,
        judged_us=float(loss.lost_us),
        expected_us=0.0,
        excess_us=float(loss.lost_us),
        is_exclusive=False,
        ancestors=(),
        children=(),
        calls_made=0,
        messages=(),
        waits=Waits.NOT,
        lost_from_us=loss.begin_us,
        lost_to_us=loss.end_us,
        loss=kind,
    )
