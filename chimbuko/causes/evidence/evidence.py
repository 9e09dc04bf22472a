"""Evidence about the calls of a run that may have to do with each other: who held up whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from chimbuko.causes.evidence.communication import Communication
from chimbuko.causes.evidence.flag import Flag, FlagIndex, Work, losses_in
from chimbuko.causes.evidence.nodeevidence import NodeEvidence
from chimbuko.causes.evidence.threadactivity import SlowTimes, ThreadActivity
from chimbuko.causes.part import HeldUp
from chimbuko.core.calls.clocks import Clocks
from chimbuko.core.calls.waiting import Waits
from chimbuko.monitor.sampling.nodebatch import NodeBatch

LEAST_SHARE = 0.25
"""Share of a wait's excess that another call must have lost meanwhile to explain it."""
LEAST_UNFLAGGED_SHARE = 0.5
"""The same share for a call that is neither flagged nor a wait."""
NEAR_SHARE = 0.5
"""Share of what the best explanation covers: others that cover as much are as good as it."""
SLACK_US = 5000
"""Time by which a culprit may end after the wait is over, as clocks may differ."""
MOST_UNCERTAIN_US = 20_000
"""Maximum widening of that time by the uncertainty of the clocks of two ranks."""
SAME_CLOCK_SLACK_US = 500
"""The same time where both ends are by the clock of one rank."""
SLACK_SHARE = 0.02
"""Share of the wait that is added to that time."""
MOST_CANDIDATES = 200
LOOK_US = 20_000
"""Time from one look at a rank's thread to the next, where that costs little."""
STOPPED_SHARE, POLLING_SHARE = 0.5, 0.8
"""Shares of its excess for which a wait must have been stopped, or without a core, to be no wait for other
ranks: ranks that share a core and poll wait for it half of the time.
"""


class Evidence:
    """Calls of a run by program and rank, with their communication and the samples of their nodes."""

    def __init__(self) -> None:
        self.flags: dict[str, Flag] = {}
        """Calls by id."""
        self.ranks: dict[int, set[int]] = defaultdict(set)
        """Known ranks of each program."""
        self.nodes = NodeEvidence()
        self._activities: dict[str, ThreadActivity | None] = {}
        """Activities of threads by call, as far as they were asked for."""
        self._slow: dict[tuple[int, int, int], SlowTimes] = {}
        """Times in which calls were slow by program, rank and thread, as far as they were asked for."""
        self.clocks = Clocks()
        self.communication = Communication(self.clocks)
        self._ordinary: dict[tuple[int, str], Flag] = {}
        self._of_rank: dict[tuple[int, int], FlagIndex] = defaultdict(FlagIndex)
        self._of_program: dict[tuple[int, Waits], FlagIndex] = defaultdict(FlagIndex)

    def put(self, flag: Flag) -> None:
        """Take a call, or a newer revision of it, with its place on the common clock (``aligned``)."""
        self.remove(flag.id)
        self.flags[flag.id] = flag
        self.ranks[flag.program].add(flag.rank)
        for index in self._indexes(flag):
            index.add(flag)
        self._slow.pop((flag.program, flag.rank, flag.thread), None)

    def put_samples(self, batch: NodeBatch) -> list[Flag]:
        """Take samples of a node; return calls that they may explain, and the losses that they report."""
        if not self.nodes.add(batch):
            return []
        for loss in losses_in(batch):
            self.put(self.aligned(loss))
        concerned = [
            flag
            for program in list(self.ranks)
            for flag in self.during(program, batch.begin_us, batch.end_us)
            if flag.node == batch.node
        ]
        for flag in concerned:
            self._activities.pop(flag.id, None)
        return concerned

    def activity(self, flag: Flag) -> ThreadActivity | None:
        """Return the activity of a call's thread by its node's samples, and by what was counted in the call;
        None without samples.
        """
        if flag.id not in self._activities:
            self._activities[flag.id] = self.nodes.activity(flag, self._slow_times(flag))
        activity, worked = self._activities[flag.id], dict(flag.worked)
        if activity is None or Work.OFF_CORE not in worked:
            return activity
        ordinary = self.ordinary(flag)
        usual = dict(ordinary.worked) if ordinary is not None else {}
        return activity.counted(
            worked.get(Work.CPU_TIME, 0),
            worked[Work.OFF_CORE],
            usual.get(Work.CPU_TIME, 0),
            usual.get(Work.OFF_CORE, 0),
        )

    def _slow_times(self, flag: Flag) -> SlowTimes:
        """Return when calls of a call's thread were slow."""
        key = flag.program, flag.rank, flag.thread
        if key not in self._slow:
            of_rank = self._of_rank[flag.program, flag.rank]
            self._slow[key] = SlowTimes(
                (one.lost_from_us, one.lost_to_us) for one in of_rank if one.thread == flag.thread
            )
        return self._slow[key]

    def is_held_up(self, flag: Flag) -> bool:
        """Whether a call's thread did not run, so that the call is no wait for others, whatever it is."""
        activity = self.activity(flag)
        return activity is not None and (
            activity.stopped_us >= STOPPED_SHARE * flag.excess_us
            or activity.waited_us >= POLLING_SHARE * flag.excess_us
        )

    def aligned(self, flag: Flag) -> Flag:
        """Return the call with its place on the common clock."""
        ahead_us = round(self.clocks.ahead_us(flag.program, flag.rank, flag.entry_us))
        return flag if ahead_us == flag.ahead_us else replace(flag, ahead_us=ahead_us)

    def common_us(self, program: int, rank: int, time_us: int) -> int:
        """Return a time of a rank's clock on the common one."""
        return time_us - round(self.clocks.ahead_us(program, rank, time_us))

    def put_ordinary(self, call: Flag) -> None:
        """Take a call that is not abnormal, to compare others of its function with; the last one of each
        stays.
        """
        self._ordinary[call.program, call.function] = call

    def ordinary(self, flag: Flag) -> Flag | None:
        """Return an ordinary call of the same function; None if none is known."""
        return self._ordinary.get((flag.program, flag.function))

    def remove(self, call_id: str) -> None:
        """Forget a call, which may be flagged no longer."""
        flag = self.flags.pop(call_id, None)
        self._activities.pop(call_id, None)
        if flag is not None:
            for index in self._indexes(flag):
                index.discard(flag)
            self._slow.pop((flag.program, flag.rank, flag.thread), None)

    def during(self, program: int, begin_us: int, end_us: int) -> Iterator[Flag]:
        """Yield calls of a program that lost time in an interval."""
        for waits in Waits:
            yield from self._of_program[program, waits].during(begin_us, end_us)

    def beside(self, flag: Flag) -> list[Flag]:
        """Return the other calls and losses in which a call's thread lost time while the call did."""
        index = self._of_rank[flag.program, flag.rank]
        found = index.during(flag.common_from_us, flag.common_to_us)
        return [one for one in found if one.id != flag.id and one.thread == flag.thread]

    def inside(self, flag: Flag) -> list[Flag]:
        """Return flagged calls and waits inside a call."""
        index = self._of_rank[flag.program, flag.rank]
        return [
            inner
            for inner in index.during(flag.common_entry_us, flag.common_exit_us)
            if inner.is_flagged or inner.is_wait
            if any(call_id == flag.id for call_id, _ in inner.ancestors)
        ]

    def on_gpu(self, flag: Flag) -> list[Flag]:
        """Return abnormal calls on the GPU that a call's process uses, in the time that the call lost."""
        index = self._of_rank[flag.program, flag.rank]
        found = index.during(flag.common_from_us, flag.common_to_us)
        return [one for one in found if one.is_gpu and one.is_flagged]

    def together(self, wait: Flag) -> list[Flag]:
        """Return at most 200 flagged calls in which other ranks wait in the same function meanwhile."""
        found = self._of_program[wait.program, wait.waits].during(wait.common_entry_us, wait.common_exit_us)
        return [
            flag
            for flag in found[:MOST_CANDIDATES]
            if flag.rank != wait.rank
            and flag.operation == wait.operation
            and wait.overlap_us(flag) >= NEAR_SHARE * min(wait.inclusive_us, flag.inclusive_us)
        ]

    def _has_lost_inside(self, flag: Flag) -> bool:
        """Whether a flagged call inside a call lost most of its time: who waits for it waits for that one."""
        if flag.is_exclusive or flag.is_wait:
            return False
        return any(inner.excess_us >= NEAR_SHARE * flag.excess_us for inner in self.inside(flag))

    def culprit(
        self, wait: Flag, ranks: Collection[int] | None = None, done_us: int | None = None
    ) -> Flag | None:
        """Return the call of another rank that held a wait up; None if there is none.

        Parameters
        ----------
        ranks
            Ranks of which the call waited for one; None if it may be any rank.
        done_us
            When that rank sent or came, on the common clock; None if it is not known.
        """
        candidates = self._explaining(wait, ranks, done_us)
        own = [flag for flag in candidates if not flag.is_wait or self.is_held_up(flag)]
        if own:
            best_us = max(_explained_us(wait, flag) for flag in own)
            near = [flag for flag in own if _explained_us(wait, flag) >= NEAR_SHARE * best_us]
            near = [flag for flag in near if flag.is_flagged] or near
            near = [flag for flag in near if flag.loss is None] or near
            # The last one that was late is the one that everybody waited for.
            last = max(near, key=lambda flag: (flag.common_to_us, flag.id))
            if best_us >= NEAR_SHARE * max(_explained_us(wait, flag) for flag in candidates):
                return last
        if self.is_held_up(wait):
            # The others waited for it.
            return None
        # A wait leads on to what it waited for itself: the one that was over first is nearest to that.
        waits = [flag for flag in candidates if flag.is_wait and flag not in own]
        return min(waits, key=lambda flag: (flag.common_exit_us, flag.id), default=None)

    def slow_thread(self, wait: Flag, thread: int | None) -> Flag | None:
        """Return the call of another thread of the same rank that held a wait up; None if there is none.

        Parameters
        ----------
        thread
            Thread that came last; None if that is not known.
        """
        begin_us, end_us = wait.common_entry_us, wait.common_exit_us
        latest_us = end_us + SAME_CLOCK_SLACK_US + SLACK_SHARE * (end_us - begin_us)
        found = [
            one
            for one in self._of_rank[wait.program, wait.rank].during(begin_us, end_us)
            if one.thread != wait.thread
            and one.thread == (one.thread if thread is None else thread)
            and one.loss is None
            and one.waits is not Waits.THREADS
            and one.common_to_us <= latest_us
            and _explained_us(wait, one) >= LEAST_SHARE * wait.excess_us
            and not self._has_lost_inside(one)
        ]
        return max(found, key=lambda one: (_explained_us(wait, one), one.common_to_us, one.id), default=None)

    def _explaining(self, wait: Flag, ranks: Collection[int] | None, done_us: int | None) -> list[Flag]:
        begin_us, end_us = wait.common_entry_us, wait.common_exit_us
        slack_us = SLACK_US + SLACK_SHARE * (end_us - begin_us) + self._uncertain_us(wait, ranks)
        latest_us = end_us + slack_us if done_us is None else done_us + SAME_CLOCK_SLACK_US
        found: Iterable[Flag]
        if ranks is None:
            # Who waits in the same operation is no cause of it, unless it was kept from running.
            found = (
                flag
                for waits in Waits
                for flag in self._of_program[wait.program, waits].during(begin_us, end_us)
                if waits is not wait.waits or self.is_held_up(flag)
                # Some call of some rank loses time at any moment, which is no reason without more.
                if flag.is_flagged or flag.is_wait
            )
        else:
            found = (
                flag for rank in ranks for flag in self._of_rank[wait.program, rank].during(begin_us, end_us)
            )
        explaining = [
            flag
            for flag in found
            if flag.rank != wait.rank
            and (flag.common_to_us <= latest_us or self._may_end_later(flag, latest_us))
            and not (flag.is_wait and flag.common_exit_us >= end_us and not self.is_held_up(flag))
            and not (_is_same_operation(wait, flag) and not self.is_held_up(flag))
            and _explained_us(wait, flag) >= _least_share(flag) * wait.excess_us
            and not self._has_lost_inside(flag)
        ]
        return sorted(explaining, key=lambda flag: -flag.excess_us)[:MOST_CANDIDATES]

    def _may_end_later(self, flag: Flag, latest_us: float) -> bool:
        """Whether a wait may have been for a call or loss that was over later than the wait.

        While a rank loses its core again and again others wait for it again and again. Looks see a stop end
        later than it did, and a call in which a rank was stopped may go on.
        """
        if flag.loss is not None:
            return flag.loss is HeldUp.WAITED_FOR_CORE or flag.common_to_us <= latest_us + LOOK_US
        activity = self.activity(flag)
        return activity is not None and activity.stopped_us >= STOPPED_SHARE * flag.excess_us

    def _uncertain_us(self, wait: Flag, ranks: Collection[int] | None) -> float:
        others = self.ranks[wait.program] if ranks is None else ranks
        uncertain_us = max((self.clocks.uncertain_us(wait.program, rank) for rank in others), default=0.0)
        return min(MOST_UNCERTAIN_US, uncertain_us + self.clocks.uncertain_us(wait.program, wait.rank))

    def _indexes(self, flag: Flag) -> tuple[FlagIndex, FlagIndex]:
        return self._of_rank[flag.program, flag.rank], self._of_program[flag.program, flag.waits]


def _least_share(flag: Flag) -> float:
    """Return the share of a wait's excess that a call must have lost meanwhile to explain it."""
    return LEAST_SHARE if flag.is_flagged or flag.is_wait else LEAST_UNFLAGGED_SHARE


def _is_same_operation(one: Flag, other: Flag) -> bool:
    """Whether both calls are in one collective operation: a call that waits there is no cause of it."""
    entered = {(operation.communicator, operation.number) for operation in one.collectives}
    return any((operation.communicator, operation.number) in entered for operation in other.collectives)


def _explained_us(wait: Flag, flag: Flag) -> float:
    """Return how much of a wait's excess the lost time of another rank covers."""
    return min(wait.overlap_us(flag) * flag.lost_share, flag.excess_us, wait.excess_us)
