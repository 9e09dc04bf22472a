"""Activity of one thread in an interval, by looks at it: how long it ran, waited for a core, and slept in
what.

The three add up to the interval. No I/O, no clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple, replace

from chimbuko.monitor.procfs.systemcalls import NO_CALL
from chimbuko.monitor.sampling.rows import Rows, ends_us, overlaps_us

Times = npt.NDArray[np.float64]

FINE_US = 100_000
"""Maximum length of rows that are taken in proportion; of longer ones only the part counts that cannot have
happened outside of the interval.
"""
LEAST_CALM_ROWS = 3
"""Minimum number of rows that say what is usual of a thread."""
LONGEST_BREAK_US = 1000
"""Maximum break between two rows that follow each other."""
AWAKE_SHARE = 0.1
"""Share of the time up to which a thread that slept was woken by nobody: others have cut its running into
slices.
"""
SEEN_SHARE = 0.25
"""Minimum share of the time off the core that looks must have seen, for the rest of it to be taken for
alike."""
STOPPED, DEVICE, ASLEEP = "T", "D", "S"
"""Letters of the kernel for states: stopped, asleep so that nothing wakes it, asleep."""


class Usual(msgspec.Struct, frozen=True):
    """Activity of a thread over a long time. Like a call's usual runtime, it contains the usual waits."""

    ran_us: float = 0.0
    waited_us: float = 0.0
    slices: float = 0.0

    def wait_us(self, ran_us: float, slices: float) -> float:
        """Return how long the thread usually waits for a core where it runs so long, and is put on one so
        often.
        """
        if self.waited_us == 0:
            return 0.0
        of_ran, of_slices = ran_us / max(1.0, self.ran_us), slices / max(1.0, self.slices)
        return self.waited_us * max(of_ran, of_slices)

    def and_also(self, rows: Rows) -> Usual:
        """Return the activity together with further rows of the thread."""
        more = (float(rows[name].sum()) for name in ("ran_us", "waited_us", "slices"))
        return Usual(*(before + after for before, after in zip(astuple(self), more, strict=True)))


class ThreadActivity(msgspec.Struct, frozen=True):
    """Activity of one thread in an interval, in µs or as counts."""

    length_us: float
    ran_us: float
    """Time on a core."""
    waited_us: float
    """Wait for a core beyond the usual wait of a thread that runs so long, or is woken so often."""
    usual_wait_us: float = 0.0
    """Usual wait for a core, which comes with running and is no cause of its own."""
    system_us: float = 0.0
    """Part of the time on a core that was spent in the kernel."""
    asleep_us: dict[tuple[str, int], float] = msgspec.field(default_factory=dict)
    """Time off the core without waiting for one, by the state it was found in, and the number of the system
    call.
    """
    minor_faults: float = 0.0
    major_faults: float = 0.0
    slices: float = 0.0
    """Number of times that the thread was put on a core."""
    moves: int = 0
    """Number of looks that found it on another core than before."""
    looks: int = 0
    cores: frozenset[int] = frozenset()
    """Cores on which it was found."""

    @property
    def stopped_us(self) -> float:
        """Time in state T."""
        return sum(us for (state, _), us in self.asleep_us.items() if state == STOPPED)

    def slept_us(self, calls: frozenset[int]) -> float:
        """Return the time asleep in these system calls, whether it could be woken or not."""
        return sum(us for (state, call), us in self.asleep_us.items() if call in calls and state != STOPPED)

    def counted(
        self, ran_us: float, off_us: float, usually_ran_us: float = 0.0, usually_off_us: float = 0.0
    ) -> ThreadActivity:
        """Return the activity of a thread that is known to have run in a call, and to have been off its core,
        for so long: on a busy node looks come late, and see neither when a call began nor when its waits did.

        Parameters
        ----------
        usually_ran_us, usually_off_us
            How long it runs in an ordinary call, and is off its core; 0 if that is not known.
        """
        seen_us = self.waited_us + self.usual_wait_us + sum(self.asleep_us.values())
        off_us = min(off_us, self.length_us)
        if not off_us or not SEEN_SHARE * off_us <= seen_us:
            return self
        more = max(1.0, off_us / seen_us)
        # Waits that are usual are an ordinary call's own, and those that come with running for longer.
        with_more = 1.0 - usually_ran_us / max(usually_ran_us, ran_us, 1.0)
        further_us = self.usual_wait_us * with_more * min(1.0, ran_us / max(1.0, self.ran_us))
        usual_us = min(self.usual_wait_us, usually_off_us + further_us)
        ran_us = min(self.ran_us, self.length_us - off_us)
        return replace(
            self,
            ran_us=ran_us,
            system_us=min(self.system_us, ran_us),
            waited_us=more * (self.waited_us + self.usual_wait_us - usual_us),
            usual_wait_us=more * usual_us,
            asleep_us={into: more * us for into, us in self.asleep_us.items()},
        )

    @property
    def device_us(self) -> float:
        """Time in state D, whatever it called."""
        return sum(us for (state, _), us in self.asleep_us.items() if state == DEVICE)


class SlowTimes:
    """Intervals in which calls of one thread were slow. They may overlap; which rows any of them overlaps is
    one search for each row, however many they are: a flood has hundreds around each of its calls.
    """

    def __init__(self, intervals: Iterable[tuple[int, int]]) -> None:
        found = np.array(sorted(one for one in intervals if one[1] > one[0]), np.int64).reshape(-1, 2)
        self._begins_us = found[:, 0]
        self._latest_us = np.concatenate([[_NEVER_US], np.maximum.accumulate(found[:, 1])])
        """Latest end of the first n intervals."""

    def overlap(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Return for each row whether an interval has a part in common with it, bool[n]."""
        begun = np.searchsorted(self._begins_us, ends_us(rows))
        return np.asarray((self._latest_us[begun] > rows["begin_us"]) & (rows["length_us"] > 0))


_NEVER_US = np.iinfo(np.int64).min


def activity_in(
    rows: Rows,
    begin_us: int,
    end_us: int,
    disturbed: SlowTimes | None = None,
    usual: Usual | None = None,
) -> ThreadActivity:
    """Return the activity of a thread from one time to another.

    Parameters
    ----------
    rows
        THREAD rows of the thread, which do not overlap, also from before and after the interval: what it does
        there is usual of it.
    disturbed
        Times in which it is not as usual.
    usual
        Activity over a longer time. That beside the interval counts where it waited less there.
    """
    rows = rows[np.argsort(rows["begin_us"])]
    times = _placed(rows)
    inside_us = overlaps_us(rows, begin_us, end_us).astype(float)
    is_calm = inside_us == 0
    if disturbed is not None:
        is_calm &= ~disturbed.overlap(rows)
    own = inside_us > 0
    within = _within(times[:, own], inside_us[own], _shares(times[:, is_calm]))
    was_stopped, has_edge, stood_us = _stops(rows, times[2], begin_us, end_us)
    at_edge = has_edge[own]
    stood = np.minimum(stood_us[own], inside_us[own])[at_edge]
    of_awake = (inside_us[own][at_edge] - stood) / np.maximum(times[:2, own][:, at_edge].sum(axis=0), 1.0)
    within[:, at_edge] = np.vstack([times[:2, own][:, at_edge] * of_awake, stood])
    ran, waited, still = within.sum(axis=1)
    own_rows = rows[own]
    of_ran = within[0] / np.maximum(times[0, own], 1.0)
    of_row = inside_us[own] / np.maximum(times[:, own].sum(axis=0), 1.0)
    slices = float((own_rows["slices"] * of_row).sum())
    # What is looked for is in all that it ever did, too, and a load that lasts is in what it did beside.
    calm = Usual().and_also(rows[is_calm])
    known = [calm] if usual is None else [usual, calm] if is_calm.sum() >= LEAST_CALM_ROWS else [usual]
    seen_us = ends_us(own_rows)
    # A look after the call tells what the thread did then. A long row tells what it mostly did.
    is_seen = (seen_us > begin_us) & (seen_us <= end_us) | (own_rows["length_us"] > FINE_US)
    woken = slices if still >= AWAKE_SHARE * (end_us - begin_us) else 0.0
    usual_us = min(float(waited), *(one.wait_us(float(ran), woken) for one in known))
    return ThreadActivity(
        length_us=float(end_us - begin_us),
        ran_us=float(ran),
        waited_us=float(waited) - usual_us,
        usual_wait_us=usual_us,
        system_us=min(float((own_rows["system_us"] * of_ran).sum()), float(ran)),
        asleep_us=_asleep(own_rows, within[2], float(still), was_stopped[own].tolist(), is_seen.tolist()),
        minor_faults=float((own_rows["minor_faults"] * of_row).sum()),
        major_faults=float((own_rows["major_faults"] * of_row).sum()),
        slices=slices,
        moves=int(own_rows["migrations"].sum()),
        looks=len(own_rows),
        cores=frozenset(own_rows["core"].tolist()),
    )


def _placed(rows: Rows) -> Times:
    """Return how long the thread ran, waited and slept in each row, f8[3, n].

    The kernel counts a wait when it is over: what is longer than its row has room for began before it.
    """
    length = rows["length_us"].astype(float)
    ran = np.minimum(rows["ran_us"], length)
    room = length - ran
    waited = rows["waited_us"].astype(float)
    if (waited > room).any():
        begins, ends = rows["begin_us"].tolist(), ends_us(rows).tolist()
        over_us = 0.0
        for at in range(len(rows) - 1, -1, -1):
            if at + 1 < len(rows):
                over_us = max(0.0, over_us - max(0, begins[at + 1] - ends[at]))
            over_us += waited[at]
            waited[at] = min(over_us, room[at])
            over_us -= waited[at]
    return np.stack([ran, waited, room - waited])


def _stops(
    rows: Rows, still_us: Times, begin_us: int, end_us: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], Times]:
    """Return three arrays over rows: whether the thread was stopped at the begin; whether it was so only
    then, or only at the end; and how long it stood still in an interval, without a break from or to that
    moment.
    """
    begins, ends = rows["begin_us"], ends_us(rows)
    is_stopped = (rows["state"] == b"T") | (rows["state"] == b"t")
    was_stopped, is_known = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
    is_known[1:] = begins[1:] <= ends[:-1] + LONGEST_BREAK_US
    was_stopped[1:] = is_known[1:] & is_stopped[:-1]
    has_edge = is_known & (is_stopped != was_stopped)
    from_us = np.where(is_stopped, ends - still_us, begins)
    to_us = np.where(is_stopped, ends, begins + still_us)
    stood_us = np.minimum(to_us, end_us) - np.maximum(from_us, begin_us)
    return was_stopped, has_edge, np.maximum(stood_us, 0.0)


def _shares(calm: Times) -> Times | None:
    """Return the shares of time that a thread usually runs, waits and sleeps, f8[3]; None if unknown."""
    total_us = calm.sum()
    return calm.sum(axis=1) / total_us if calm.shape[1] >= LEAST_CALM_ROWS and total_us > 0 else None


def _within(times: Times, inside_us: Times, usual: Times | None) -> Times:
    """Return how much of what happened in rows happened in the part that lies in the interval, f8[3, n]."""
    length = times.sum(axis=0)
    outside = length - inside_us
    within = times * (inside_us / np.maximum(length, 1.0))
    if usual is not None:
        # Outside it did what is usual of it.
        left = np.clip(times - usual[:, np.newaxis] * outside, 0.0, np.minimum(times, inside_us))
        within = np.where(
            left.sum(axis=0) > 0, left * (inside_us / np.maximum(left.sum(axis=0), 1e-9)), within
        )
    certain = np.maximum(times - outside, 0.0)
    return np.asarray(np.where(length <= FINE_US, within, certain))


def _asleep(
    rows: Rows, still_us: Times, total_us: float, was_stopped: list[bool], is_seen: list[bool]
) -> dict[tuple[str, int], float]:
    """Return how long it slept, by what in; the lists say of each row whether it was stopped at its begin,
    and whether it tells what the thread does in the interval.
    """
    found: Counter[tuple[str, int]] = Counter()
    stood = STOPPED, NO_CALL
    before: tuple[str, int] | None = None
    states = [state.decode() for state in rows["state"].tolist()]
    columns = zip(states, rows["call"].tolist(), still_us.tolist(), was_stopped, is_seen, strict=True)
    for state, call, us, was, is_told in columns:
        letter = STOPPED if state == "t" else state
        now = (letter, call) if is_told and letter in (STOPPED, DEVICE, ASLEEP) else None
        # One that runs again slept in what it was found in before. Which it does after a stop, too: the sleep
        # that it is found in then has just begun.
        into = stood if was else now or before
        if into is not None:
            found[into] += us
        before = now
    known_us = sum(found.values())
    # Often woken in between: what it is found in says what it slept in.
    return {into: us * total_us / known_us for into, us in found.items() if us > 0}
