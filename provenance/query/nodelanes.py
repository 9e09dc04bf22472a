"""Threads, cores and other processes of a node over time, in equal intervals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from chimbuko.monitor.sampling.nodebatch import NodeBatch, ThreadName
from chimbuko.monitor.sampling.rows import CORE, GPU, THREAD, Rows, overlapping, overlaps_us
from chimbuko.provenance.query.nodelist import NodeSamples
from chimbuko.provenance.query.runreader import RunReader

PERIODS_BELOW_US = 5_000_000
"""Length above which intervals are read from sums, of which there are few however long a run is."""
LOOKS_BELOW_US = 500_000
COVERED = 0.5
"""Least share of an interval that samples must cover."""

Shares = list[float | None]
Amounts = npt.NDArray[np.float64]


class ThreadLane(msgspec.Struct, frozen=True):
    """Thread over time: shares of each interval, null where nothing is known. It slept for the rest."""

    program: int
    rank: int
    thread: int
    """Number of the thread in the trace; -1 if the trace does not say."""
    tid: int
    name: str
    cpus: str
    """Cores on which it may run, as ``0-3,8``; empty if that is not known."""
    ran_us: float
    """Time that the thread ran in all intervals."""
    waited_us: float
    user: Shares
    system: Shares
    waited: Shares
    """Share of the time in which the thread waited for a core."""


class CoreLane(msgspec.Struct, frozen=True):
    """Hardware thread over time: shares of each interval, null where nothing is known.

    It was idle for the rest.
    """

    cpu: int
    own_us: float
    """Time used by threads of ranks, in all intervals."""
    busy_us: float
    own: Shares
    """Share used by threads of ranks."""
    others: Shares
    """Share used by others, the kernel among them."""
    stolen: Shares
    """Share taken by the host of a virtual machine."""


class GpuLane(msgspec.Struct, frozen=True):
    """GPU over time: shares of each interval, null where nothing is known. No kernel ran for the rest."""

    gpu: int
    name: str
    busy_us: float
    """Time that the core was busy in all intervals."""
    memory_used_bytes: int
    """Most memory in use; 0 if it is not known, as for the next figures."""
    memory_total_bytes: int
    power_w: float
    """Mean power."""
    temperature_c: int
    """Highest temperature."""
    busy: Shares
    """Share in which a kernel ran, as fast as it could."""
    throttled: Shares
    """Share in which a kernel ran while the GPU was slowed down, for heat or by its power supply."""


class Lanes:
    """Lanes of a node from one time to another.

    Parameters
    ----------
    columns
        Number of intervals.

    Raises
    ------
    StoreError
        The store cannot be read.
    """

    def __init__(self, reader: RunReader, node: str, begin_us: int, end_us: int, columns: int) -> None:
        self._edges_us = np.linspace(begin_us, end_us, columns + 1)
        self.width_us = (end_us - begin_us) / columns
        samples = NodeSamples(reader)
        self._sums = _known(samples.batches(begin_us, end_us, is_sum=True, node=node))
        is_fine = self.width_us < PERIODS_BELOW_US or not self._sums
        self._details = _known(samples.batches(begin_us, end_us, node=node)) if is_fine else []

    def threads(self, limit: int, first: int) -> tuple[list[ThreadLane], int]:
        """Return the threads that ran or waited most, and the number of all."""
        names = {name.tid: name for batch in (*self._details, *self._sums) for name in batch.names}
        looks = [one.look_rows() for one in self._details] if self.width_us < LOOKS_BELOW_US else []
        levels = [
            self._by_key([one.thread_rows() for one in self._sums], "tid", THREAD),
            self._by_key([one.thread_rows() for one in self._details], "tid", THREAD),
            self._by_key(looks, "tid", THREAD),
        ]
        known = {tid for level in levels for tid in level} & names.keys()
        did = {tid: self._did(levels, tid) for tid in known}
        order = sorted(known, key=lambda tid: (-sum(did[tid]), tid))
        return [
            _thread_lane(names[tid], did[tid], *self._shares(levels, tid, _of_thread))
            for tid in order[first : first + limit]
        ], len(order)

    def cores(self, limit: int, first: int) -> tuple[list[CoreLane], int]:
        """Return some of the cores, those of the ranks' threads first, and the number of all."""
        levels = [
            self._by_key([one.core_rows() for one in batches], "cpu", CORE)
            for batches in (self._sums, self._details)
        ]
        known = {cpu for level in levels for cpu in level}
        shares = {cpu: self._shares(levels, cpu, _of_core) for cpu in known}
        totals = {cpu: [self.width_us * float(np.nansum(part)) for part in shares[cpu]] for cpu in known}
        is_used = {cpu: totals[cpu][0] > 0 for cpu in known}
        order = sorted(known, key=lambda cpu: (not is_used[cpu], cpu))
        return [
            CoreLane(cpu, totals[cpu][0], sum(totals[cpu]), *map(_rounded, shares[cpu]))
            for cpu in order[first : first + limit]
        ], len(order)

    def gpus(self) -> list[GpuLane]:
        """Return all GPUs, by number."""
        parts = [[one.gpu_rows() for one in batches] for batches in (self._sums, self._details)]
        levels = [self._by_key(rows, "gpu", GPU) for rows in parts]
        found = []
        for number in sorted({gpu for level in levels for gpu in level}):
            # The coarsest samples cover all the time.
            rows = next(level[number] for level in levels if number in level)
            shares = self._shares(levels, number, _of_gpu)
            busy, throttled = map(_rounded, shares)
            found.append(
                GpuLane(
                    number,
                    rows["name"][-1].decode(errors="replace"),
                    self.width_us * float(np.nansum(shares)),
                    int(rows["memory_used_bytes"].max()),
                    int(rows["memory_total_bytes"].max()),
                    round(1000 * float(rows["energy_mj"].sum()) / max(1, int(rows["length_us"].sum())), 1),
                    int(rows["temperature_c"].max()),
                    busy,
                    throttled,
                )
            )
        return found

    def _by_key(self, parts: Sequence[Rows], key: str, dtype: np.dtype[np.void]) -> dict[int, Rows]:
        """Return the rows of the time that is shown, by what they are of, each in order of time."""
        rows = np.concatenate([np.zeros(0, dtype), *parts])
        rows = overlapping(rows, int(self._edges_us[0]), int(self._edges_us[-1]))
        rows = rows[np.lexsort((rows["begin_us"], rows[key]))]
        keys, firsts = np.unique(rows[key], return_index=True)
        return dict(zip(keys.tolist(), np.split(rows, firsts[1:]), strict=True)) if len(rows) else {}

    def _did(self, levels: Sequence[dict[int, Rows]], tid: int) -> tuple[float, float]:
        """Return how long a thread ran and waited, by its coarsest samples, which cover all the time."""
        rows = next(level[tid] for level in levels if tid in level)
        inside_us = overlaps_us(rows, int(self._edges_us[0]), int(self._edges_us[-1]))
        part = inside_us / np.maximum(rows["length_us"], 1)
        return float((rows["ran_us"] * part).sum()), float((rows["waited_us"] * part).sum())

    def _shares(
        self, levels: Sequence[dict[int, Rows]], key: int, amounts_of: Callable[[Rows], Amounts]
    ) -> Amounts:
        """Return shares f8[part, interval] by the finest samples of each; NaN if nothing is known."""
        found: Amounts | None = None
        for level in levels:
            if key not in level:
                continue
            rows = level[key]
            amounts = self._binned(rows, np.vstack([amounts_of(rows), rows["length_us"]]))
            covered_us = amounts[-1]
            if found is None:
                found = np.full((len(amounts) - 1, len(covered_us)), np.nan)
            is_known = covered_us >= COVERED * self.width_us
            # At the edge of what is known a row that is shorter than an interval counts, too.
            is_known |= (covered_us > 0) & np.isnan(found[0])
            found[:, is_known] = amounts[:-1, is_known] / covered_us[is_known]
        assert found is not None
        # The parts of an interval do not exceed the whole of it.
        ends = np.minimum(np.cumsum(found, axis=0), 1.0)
        return np.diff(ends, axis=0, prepend=0.0)

    def _binned(self, rows: Rows, values: Amounts) -> Amounts:
        """Return each row's values by interval, spread evenly over the row's time."""
        begins = rows["begin_us"] - self._edges_us[0]
        at = np.empty(2 * len(rows))
        at[0::2], at[1::2] = begins, begins + rows["length_us"]
        at = np.maximum.accumulate(at)
        edges = self._edges_us - self._edges_us[0]
        out = np.empty((len(values), len(edges) - 1))
        for number, value in enumerate(values):
            total = np.cumsum(value)
            so_far = np.empty(2 * len(rows))
            so_far[0::2], so_far[1::2] = total - value, total
            out[number] = np.diff(np.interp(edges, at, so_far))
        return out


def _known(batches: Iterable[NodeBatch]) -> list[NodeBatch]:
    return [batch for batch in batches if batch.is_known]


def _of_thread(rows: Rows) -> Amounts:
    """Return time in the program, in the kernel, and waiting for a core, f8[3, n]."""
    ran = rows["ran_us"].astype(float)
    system = np.minimum(rows["system_us"], ran)
    return np.stack([ran - system, system, rows["waited_us"].astype(float)])


def _of_core(rows: Rows) -> Amounts:
    """Return time of ranks, of others, and stolen time, f8[3, n]."""
    busy = rows["user_us"].astype(float) + rows["system_us"]
    # Threads that were last seen there may have run elsewhere.
    own = np.minimum(rows["own_us"], busy)
    return np.stack([own, busy - own, rows["steal_us"].astype(float)])


def _of_gpu(rows: Rows) -> Amounts:
    """Return busy time at full speed and while slowed down, f8[2, n]."""
    busy = rows["busy_us"].astype(float)
    throttled = np.minimum(busy, rows["throttled_us"])
    return np.stack([busy - throttled, throttled])


def _thread_lane(
    name: ThreadName, did: tuple[float, float], user: Amounts, system: Amounts, waited: Amounts
) -> ThreadLane:
    return ThreadLane(
        *(name.program, name.rank, name.thread, name.tid, name.name, name.cpus, *did),
        *map(_rounded, (user, system, waited)),
    )


def _rounded(shares: Amounts) -> Shares:
    return [None if share != share else share for share in np.round(shares, 3).tolist()]


class OtherProcess(msgspec.Struct, frozen=True):
    """Process from outside the run that ran on a node meanwhile."""

    name: str
    user: str
    pid: int
    ran_us: float
    """Time that the process ran in the interval; samples that reach beyond it count in proportion."""


def other_processes(reader: RunReader, node: str, begin_us: int, end_us: int) -> list[OtherProcess]:
    """Return the other processes that ran in an interval, those that ran most first.

    Raises
    ------
    StoreError
        The store cannot be read.
    """
    samples = NodeSamples(reader)
    # Around abnormal calls other processes were looked for more often.
    levels = [False, True] if end_us - begin_us < PERIODS_BELOW_US else [True]
    for is_sum in levels:
        ran_us: Counter[tuple[str, str, int]] = Counter()
        for batch in samples.batches(begin_us, end_us, is_sum=is_sum, node=node):
            if not batch.is_known:
                continue
            rows = overlapping(batch.other_rows(), begin_us, end_us)
            for row, inside_us in zip(rows, overlaps_us(rows, begin_us, end_us).tolist(), strict=True):
                name, user = (row[what].decode(errors="replace") for what in ("name", "user"))
                ran_us[name, user, int(row["pid"])] += (
                    float(row["ran_us"]) * inside_us / max(1, row["length_us"])
                )
        if ran_us:
            return [OtherProcess(*who, float(us)) for who, us in ran_us.most_common() if us > 0]
    return []
