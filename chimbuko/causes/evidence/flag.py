"""Flagged call, or other loss of time, as far as causes need it.

What a rank lost as its node kept it from running is a value of the same kind.
"""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from chimbuko.causes.part import HeldUp
from chimbuko.core.calls.record import FIRST_STRETCH_ROW, CallRecord, Collective, Message, judged_us
from chimbuko.core.calls.schema import Label
from chimbuko.core.calls.waiting import Waits, waits_in
from chimbuko.core.pauses import Pause, pause_of
from chimbuko.monitor.sampling.nodebatch import SAMPLED_US, NodeBatch, RankLoss


class Work(StrEnum):
    """Counter of what a thread did in a call's own code, where that took a millisecond or more.

    The recorder's ``work.c`` has the same names. Those of the hardware are there only where the machine
    counts them, and lets programs read that.
    """

    CPU_TIME = "Work: CPU time (us)"
    FAULTS = "Work: page faults"
    OFF_CORE = "Work: time off the core (us)"
    INSTRUCTIONS = "Work: instructions"
    CYCLES = "Work: cycles"
    CACHE_MISSES = "Work: cache misses"


LEAST_UNFLAGGED_US = 5_000.0
"""Excess from which calls that are not flagged are looked at."""
GAP_SHARE = 0.5
"""Share of the excess that must lie in one gap between inner calls, for the time to have been lost there."""

_CLOCK = re.compile(r"TIME|CLOCK|CYC|TSC|ENERGY", re.IGNORECASE)
"""Names of metrics that rise as time passes, whatever is done."""
_MOVED = re.compile(r"Bytes (Read|Written)")
"""Part of the names of TAU's counters of files, some of which have the file in them."""


class Child(msgspec.Struct, frozen=True):
    """Call that the flagged one made itself, as far as its window has it."""

    function: str
    entry_us: int
    exit_us: int


class Flag(msgspec.Struct, frozen=True):
    """Call that lost time. Times are µs since 1970 on its rank's clock, except the common ones."""

    id: str
    program: int
    rank: int
    thread: int
    node: str
    function: str
    entry_us: int
    exit_us: int
    """End of the call; of an open call the last time that it was seen."""
    exclusive_us: int
    judged_us: float
    """Runtime by which it was judged: exclusive, or inclusive."""
    expected_us: float
    excess_us: float
    """Judged runtime beyond the expected one: the time that is to be explained."""
    is_exclusive: bool
    """Whether it was judged without the calls inside it."""
    ancestors: tuple[tuple[str, str], ...]
    """Ids and functions of the calls around it, innermost first."""
    children: tuple[Child, ...]
    """Calls inside the call, in order of time, as far as the window has them."""
    calls_made: int
    """Number of calls that the call made."""
    messages: tuple[Message, ...]
    """Messages sent and received in it, not in calls inside it."""
    waits: Waits
    lost_from_us: int
    lost_to_us: int
    """Interval of the call in which the excess lies, as far as its window tells."""
    collectives: tuple[Collective, ...] = ()
    """Collective operations entered in it, not in calls inside it; only where the trace has them."""
    ahead_us: int = 0
    """Lead of the clock of its rank over the common one."""
    is_flagged: bool = True
    """Whether it is abnormal. Otherwise it belongs to an incident only with a flagged call that waited for
    it, or for the same.
    """
    is_gpu: bool = False
    """Whether it ran on a GPU."""
    counted: tuple[tuple[str, int], ...] = ()
    """Amounts by which counters rose in it alone: metrics except clocks, and bytes of files."""
    paused: tuple[tuple[Pause, str, int], ...] = ()
    """Pauses that Python made in it alone, each with what it was about and its length in µs."""
    worked: tuple[tuple[Work, int], ...] = ()
    """Counts of what the thread did in it alone, where our recorder has written them."""
    between: tuple[str, ...] = ()
    """Functions that its caller called before, where that is known, and after, if it is what that spent
    itself in between.
    """
    loss: HeldUp | None = None
    """Way in which the node kept the rank from running, if this stands for such a time; None for a call.
    """

    @property
    def common_entry_us(self) -> int:
        """Entry on the clock that all ranks have in common."""
        return self.entry_us - self.ahead_us

    @property
    def common_exit_us(self) -> int:
        """Exit on the common clock."""
        return self.exit_us - self.ahead_us

    @property
    def common_from_us(self) -> int:
        """Begin of the interval with its excess, on the common clock."""
        return self.lost_from_us - self.ahead_us

    @property
    def common_to_us(self) -> int:
        """End of the interval with its excess, on the common clock."""
        return self.lost_to_us - self.ahead_us

    @property
    def lost_share(self) -> float:
        """Share of the interval with its excess that was lost: all of it for a call."""
        if self.loss is None:
            return 1.0
        return min(1.0, self.excess_us / max(1, self.lost_to_us - self.lost_from_us))

    @property
    def has_all_children(self) -> bool:
        """Whether the window has all calls that the call made."""
        return len(self.children) == self.calls_made

    @property
    def size_bytes(self) -> int:
        """Bytes sent, or else received; for the latter a trace may give the size of the buffer."""
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
        """Whether ranks wait for each other in such a call."""
        return self.waits is not Waits.NOT

    def paused_us(self, kind: Pause) -> tuple[str, int]:
        """Return how long pauses of a kind lasted together, and what most of it was about."""
        if not self.paused:
            return "", 0
        lengths_us = Counter[str]()
        for one, what, length_us in self.paused:
            if one is kind:
                lengths_us[what] += length_us
        return max(lengths_us, key=lambda what: (lengths_us[what], what), default=""), lengths_us.total()

    @property
    def caller(self) -> str:
        """Function of the call around it; empty without one."""
        return self.ancestors[0][1] if self.ancestors else ""

    @property
    def operation(self) -> str:
        """Function that the program called: that of the library's call if this is a part that a tool adds to
        it.
        """
        is_part = self.is_wait and not self.function.startswith("MPI_")
        return self.caller if is_part and self.caller.startswith("MPI_") else self.function

    def overlap_us(self, other: Flag) -> int:
        """Return how long both lost time together."""
        end_us = min(self.common_to_us, other.common_to_us)
        return max(0, end_us - max(self.common_from_us, other.common_from_us))


def flag_of(record: CallRecord) -> Flag:
    """Return what matters of a record for its cause."""
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
        paused=tuple(
            (*pause, value.value)
            for value in record.counters
            if value.call_id == record.id and (pause := pause_of(value.counter)) is not None
        ),
        worked=_worked(record),
        between=_between(record),
    )


def may_matter(flag: Flag) -> bool:
    """Whether a call is flagged, or lost so much that flagged ones may have waited for it or the same."""
    return flag.is_flagged or flag.excess_us >= max(LEAST_UNFLAGGED_US, flag.expected_us)


def _between(record: CallRecord) -> tuple[str, ...]:
    """Return the functions that a long call called before and after a stretch, as far as they are in its
    window; of a call nothing.
    """
    if int(record.id.rpartition(":")[2]) > FIRST_STRETCH_ROW:
        return ()
    at = next((at for at, call in enumerate(record.window) if call.id == record.id), 0)
    around = [*record.window[max(at - 1, 0) : at], *record.window[at + 1 : at + 2]]
    return tuple(call.function for call in around)


_WORK = {str(work): work for work in Work}


def _worked(record: CallRecord) -> tuple[tuple[Work, int], ...]:
    amounts = defaultdict[Work, int](int)
    for value in record.counters:
        if value.call_id == record.id and value.counter in _WORK:
            amounts[_WORK[value.counter]] += value.value
    return tuple(amounts.items())


def _counted(record: CallRecord) -> tuple[tuple[str, int], ...]:
    amounts = defaultdict[str, int](int)
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
    """Return stretches of a call outside of its children.

    Windows have the first children alone; then the stretch behind the last one is left out, as its end
    (``exit_us``) is that of another call.
    """
    ends = [entry_us, *(child.exit_us for child in children)]
    begins = [child.entry_us for child in children] + ([] if exit_us is None else [exit_us])
    return list(zip(ends, begins, strict=False))


_Entry = tuple[int, str, Flag]


class FlagIndex:
    """Calls in order of the begin of their lost time, on the common clock."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._longest_us = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Flag]:
        return (flag for *_, flag in self._entries)

    def add(self, flag: Flag) -> None:
        """Add a call."""
        insort(self._entries, (flag.common_from_us, flag.id, flag))
        self._longest_us = max(self._longest_us, flag.lost_to_us - flag.lost_from_us)

    def discard(self, flag: Flag) -> None:
        """Remove a call, if it is there."""
        at = bisect_left(self._entries, (flag.common_from_us, flag.id))
        if at < len(self._entries) and self._entries[at][1] == flag.id:
            del self._entries[at]
        if not self._entries:
            self._longest_us = 0

    def during(self, begin_us: int, end_us: int) -> list[Flag]:
        """Return the calls that lost time in an interval."""
        first = bisect_left(self._entries, (begin_us - self._longest_us, ""))
        last = bisect_left(self._entries, (end_us, ""))
        return [flag for *_, flag in self._entries[first:last] if flag.common_to_us > begin_us]


MAIN_THREAD = 0
_FIRST = "L"
"""First letter of ids of losses, which no call has."""


def losses_in(batch: NodeBatch) -> Iterator[Flag]:
    """Yield the losses that a node reports."""
    for loss in batch.losses:
        yield _flag_of_loss(loss, batch.node)


def sampled_part(loss: Flag) -> Flag:
    """Return the begin of a loss, of which there are samples, with the same share of lost time."""
    to_us = min(loss.lost_to_us, loss.lost_from_us + SAMPLED_US)
    share = (to_us - loss.lost_from_us) / max(1, loss.lost_to_us - loss.lost_from_us)
    return replace(loss, lost_to_us=to_us, excess_us=share * loss.excess_us)


def is_loss_id(call_id: str) -> bool:
    """Whether an id is that of a loss, and not of a call."""
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
