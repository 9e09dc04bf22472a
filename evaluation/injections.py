"""The programs with injected delays by which the C++ Chimbuko is tried, as traces, at their own times.

What it only prints is asserted here: which calls are delayed is known. Where a delay makes others wait,
each program is played twice with the same noise, with delays and without, and a call is delayed that
takes twice as long as without.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from scipy import stats

from evaluation.labelled import LabelledRun
from evaluation.laws import TAIL, Mode, RuntimeLaw
from evaluation.timeline import RankTimeline, labelled_run

INJECTED = "injected"
"""Kind of delays of these scenarios."""
MS = 1e3
S = 1e6
NOISE = 0.02
"""σ of the logarithm of all durations."""
OWN_US = 20.0
"""Own time of a caller between two calls."""
MAIN = ".TAU application"
LATENCY_US = 10.0
TRANSFER_US = 1 * MS
MESSAGE_BYTES = 1 << 20
KERNEL = "sleep_kernel(unsigned long)"
KERNEL_US = 7 * MS
LARGER = 50
"""Times as much data in an outlying message."""


@dataclass
class Worker:
    """One thread that does the same again and again, in modes that take turns."""

    timeline: RankTimeline
    random: np.random.Generator
    thread: int = 0
    clock_us: float = 0.0
    _quantiles_us: dict[tuple[float, ...], float] = field(default_factory=dict)

    def repeat(
        self,
        function: str,
        modes_us: tuple[float, ...],
        cycles: int,
        delayed_us: float,
        delayed: Collection[int],
    ) -> None:
        """Call ``function`` so often; the calls ``delayed``, counted from 1, take ``delayed_us``."""
        quantile_us = _law(modes_us).upper_quantile_us(TAIL)
        for cycle in range(1, cycles + 1):
            median_us = modes_us[cycle % len(modes_us)]
            is_delayed = cycle in delayed
            runtime_us = (delayed_us if is_delayed else median_us) * noise(self.random)
            start_us = self.clock_us + OWN_US * noise(self.random)
            self.clock_us = start_us + runtime_us
            self.timeline.call(
                self.thread, function, start_us, self.clock_us, median_us, quantile_us, is_delayed
            )


def noise(random: np.random.Generator) -> float:
    """A factor about 1."""
    return float(random.lognormal(0.0, NOISE))


def every(period: int, cycles: int, first: int | None = None) -> range:
    """Every so many cycles, counted from 1."""
    return range(first or period, cycles + 1, period)


def _law(modes_us: tuple[float, ...]) -> RuntimeLaw:
    share = 1 / len(modes_us)
    return RuntimeLaw(tuple(Mode(share, stats.lognorm(NOISE, scale=median_us)) for median_us in modes_us))


def _programs(
    seed: int, ranks: list[tuple[int, int, str]], threads: int, work: Callable[[Worker], None]
) -> LabelledRun:
    """Ranks (program, rank, executable) whose threads all do the same, without a word to each other."""
    random = np.random.default_rng(seed)
    timelines = []
    for program, rank, executable in ranks:
        timeline = RankTimeline(program, rank, executable)
        for thread in range(threads):
            worker = Worker(timeline, random, thread)
            timeline.enter(thread, MAIN, 0.0)
            work(worker)
            timeline.leave(thread, MAIN, worker.clock_us)
        timelines.append(timeline)
    return labelled_run(timelines)


def func_multimodal(seed: int) -> LabelledRun:
    """Two modes, and a long call every 30 cycles, on 4 ranks."""
    return _programs(
        seed,
        [(0, rank, "multimodal") for rank in range(4)],
        1,
        lambda worker: worker.repeat("cycle", (200 * MS, 400 * MS), 200, 10 * S, every(30, 200)),
    )


def multigrid(seed: int) -> LabelledRun:
    """A recursive cycle on four levels on 4 ranks, each in an eighth of the time of the one above: at times
    one on a lower level takes 20 ms longer, half of what is usual on the highest.
    """
    usual_us = [40 * MS / 8**level for level in range(4)]
    quantiles_us = [_law((one,)).upper_quantile_us(TAIL) for one in usual_us]

    def cycle(worker: Worker, number: int, level: int = 0) -> None:
        if level == len(usual_us):
            return
        worker.timeline.enter(worker.thread, "cycle", worker.clock_us)
        is_delayed = number % 60 == 30 and level == 1 + number // 60 % 3
        start_us = worker.clock_us + OWN_US * noise(worker.random)
        runtime_us = usual_us[level] * noise(worker.random) + is_delayed * 20 * MS
        worker.clock_us = start_us + runtime_us
        worker.timeline.call(
            worker.thread,
            "smooth",
            start_us,
            worker.clock_us,
            usual_us[level],
            quantiles_us[level],
            is_delayed,
        )
        cycle(worker, number, level + 1)
        worker.clock_us += OWN_US * noise(worker.random)
        worker.timeline.leave(worker.thread, "cycle", worker.clock_us)

    def cycles(worker: Worker) -> None:
        for number in range(600):
            cycle(worker, number)

    return _programs(seed, [(0, rank, "multigrid") for rank in range(4)], 1, cycles)


def multiinstance_nompi(seed: int) -> LabelledRun:
    """Two instances of one program."""
    return _programs(
        seed,
        [(0, instance, "main") for instance in range(2)],
        1,
        lambda worker: worker.repeat("work", (10 * MS,), 5000, 100 * MS, every(200, 5000)),
    )


def simple_workflow(seed: int) -> LabelledRun:
    """Two programs."""
    return _programs(
        seed,
        [(program, 0, name) for program, name in enumerate(("first", "second"))],
        1,
        lambda worker: worker.repeat("work", (20 * MS,), 3000, 200 * MS, every(300, 3000)),
    )


def openmp_cpu(seed: int) -> LabelledRun:
    """Three threads, two modes."""
    return _programs(
        seed,
        [(0, 0, "openmp")],
        3,
        lambda worker: worker.repeat(
            "OpenMP_Parallel_Region", (200 * MS, 500 * MS), 100, 10 * S, every(30, 100)
        ),
    )


def c_from_python(seed: int) -> LabelledRun:
    """A single long call at the end of a short history."""
    return _programs(
        seed, [(0, 0, "python")], 1, lambda worker: worker.repeat("c_function", (S,), 40, 10 * S, (40,))
    )


def python_hello(seed: int) -> LabelledRun:
    """Two long calls."""
    return _programs(
        seed, [(0, 0, "python")], 1, lambda worker: worker.repeat("hello", (300 * MS,), 100, 10 * S, (40, 80))
    )


def zmq_worker_client(seed: int) -> LabelledRun:
    """A client waits for a server, whose work is sometimes 20 times as long."""
    random = np.random.default_rng(seed)
    client, server = RankTimeline(0, 0, "client"), RankTimeline(1, 0, "server")
    worker = Worker(server, random)
    quantile_us = _law((50 * MS,)).upper_quantile_us(TAIL)
    for timeline in (client, server):
        timeline.enter(0, MAIN, 0.0)
    for cycle in range(1, 101):
        asked_us = worker.clock_us
        is_delayed = cycle % 30 == 0
        worker.clock_us += LATENCY_US
        worker.repeat("work", (50 * MS,), 1, S, (1,) if is_delayed else ())
        worker.clock_us += LATENCY_US
        client.call(0, "request", asked_us, worker.clock_us, 50 * MS, quantile_us, is_delayed)
    for timeline in (client, server):
        timeline.leave(0, MAIN, worker.clock_us)
    return labelled_run([client, server])


@dataclass
class _Communication:
    """Calls of one play of an MPI program, per rank and thread: start and end."""

    calls: dict[tuple[int, int], list[tuple[float, float]]] = field(default_factory=dict)
    sizes_bytes: dict[tuple[int, int], list[int]] = field(default_factory=dict)

    def note(self, rank: int, thread: int, start_us: float, end_us: float, size_bytes: int) -> None:
        self.calls.setdefault((rank, thread), []).append((start_us, end_us))
        self.sizes_bytes.setdefault((rank, thread), []).append(size_bytes)


def mpi_comm_outlier(seed: int) -> LabelledRun:
    """Four ranks in a ring; every 50 cycles rank 1 sends 50 times the data."""
    return _communicating("MPI_Sendrecv()", lambda is_delayed: _ring(seed, is_delayed))


def _ring(seed: int, has_delays: bool) -> _Communication:
    random = np.random.default_rng(seed)
    played = _Communication()
    ranks, cycles = 4, 1000
    clock_us = np.zeros(ranks)
    delayed = every(50, cycles)
    for cycle in range(1, cycles + 1):
        start_us = clock_us + 2 * MS * random.lognormal(0.0, NOISE, ranks)
        sizes = np.full(ranks, MESSAGE_BYTES)
        sizes[1] *= LARGER if has_delays and cycle in delayed else 1
        transfer_us = TRANSFER_US * sizes / MESSAGE_BYTES * random.lognormal(0.0, NOISE, ranks)
        sent_us = start_us + transfer_us
        clock_us = np.maximum(sent_us, np.roll(sent_us, 1))
        for rank in range(ranks):
            played.note(rank, 0, start_us[rank], clock_us[rank], int(sizes[rank]))
    return played


def mpi_threaded_comm_outlier(seed: int) -> LabelledRun:
    """2 × 2 ranks broadcast along rows and columns from two threads, 5 % of the calls 50 times the data."""
    return _communicating("MPI_Bcast()", lambda is_delayed: _grid(seed, is_delayed))


def _grid(seed: int, has_delays: bool) -> _Communication:
    random = np.random.default_rng(seed)
    played = _Communication()
    for thread, groups in enumerate((((0, 1), (2, 3)), ((0, 2), (1, 3)))):
        for group in groups:
            clock_us = np.zeros(2)
            for _ in range(1000):
                is_delayed = random.random() < 0.05
                start_us = clock_us + 2 * MS * random.lognormal(0.0, NOISE, 2)
                size_bytes = MESSAGE_BYTES * (LARGER if has_delays and is_delayed else 1)
                transfer_us = TRANSFER_US * size_bytes / MESSAGE_BYTES * noise(random)
                clock_us = np.full(2, start_us.max() + transfer_us)
                for member, rank in enumerate(group):
                    played.note(rank, thread, start_us[member], clock_us[member], size_bytes)
    return played


def _communicating(function: str, play: Callable[[bool], _Communication]) -> LabelledRun:
    """Played with and without delays; delayed is what takes twice as long as without."""
    without, delayed = play(False), play(True)
    ordinary_us = np.array([end - start for calls in without.calls.values() for start, end in calls])
    median_us, quantile_us = float(np.median(ordinary_us)), float(ordinary_us.max())
    timelines: dict[int, RankTimeline] = {}
    for (rank, thread), calls in delayed.calls.items():
        timeline = timelines.setdefault(rank, RankTimeline(0, rank, "mpi"))
        timeline.enter(thread, MAIN, 0.0)
        for own, other, size_bytes in zip(
            calls, without.calls[rank, thread], delayed.sizes_bytes[rank, thread], strict=True
        ):
            is_delayed = own[1] - own[0] > 2 * (other[1] - other[0])
            timeline.call(thread, function, *own, median_us, quantile_us, is_delayed)
            timeline.counter(thread, f"Message size for {function}", size_bytes, own[0])
        timeline.leave(thread, MAIN, calls[-1][1])
    return labelled_run(list(timelines.values()))


def cupti_kernels(seed: int) -> LabelledRun:
    """A thousand kernels on one stream."""
    return kernels_run(seed, streams=1, kernels=1000, delayed=every(100, 1000, first=20))


def cupti_multistream(seed: int) -> LabelledRun:
    """Three streams of a hundred kernels; those of the first are often 100 times as long."""
    return kernels_run(seed, streams=3, kernels=100, delayed=every(5, 100, first=20))


def kernels_run(
    seed: int,
    streams: int,
    kernels: int,
    delayed: Collection[int],
    late_steps: Mapping[int, int] = MappingProxyType({}),
) -> LabelledRun:
    """Kernels of 7 ms that a host launches; on the first stream some take 100 times as long."""
    random = np.random.default_rng(seed)
    timeline = RankTimeline(0, 0, "kernels", late_steps)
    timeline.enter(0, MAIN, 0.0)
    launched_us, ended_us, correlation = 0.0, 0.0, 0
    launch_quantile_us = _law((OWN_US,)).upper_quantile_us(TAIL)
    kernel_quantile_us = _law((KERNEL_US,)).upper_quantile_us(TAIL)
    for stream in range(streams):
        thread = 1 + stream
        for key, value in (("Device", 0), ("Context", 1), ("Stream", stream)):
            timeline.names.metadata[0, thread, f"CUDA {key}"] = str(value)
        free_us = 0.0
        for kernel in range(1, kernels + 1):
            correlation += 1
            start_us = launched_us + OWN_US
            launched_us = start_us + OWN_US * noise(random)
            launch = timeline.call(0, "cudaLaunchKernel", start_us, launched_us, OWN_US, launch_quantile_us)
            timeline.counter(0, "Correlation ID", correlation, launched_us)
            is_delayed = stream == 0 and kernel in delayed
            start_us = max(free_us, launched_us) + OWN_US
            free_us = start_us + KERNEL_US * noise(random) * (100 if is_delayed else 1)
            timeline.call(
                thread, KERNEL, start_us, free_us, KERNEL_US, kernel_quantile_us, is_delayed, launch
            )
            timeline.counter(thread, "Correlation ID", correlation, free_us)
        ended_us = max(ended_us, free_us)
    timeline.leave(0, MAIN, ended_us)
    return labelled_run([timeline])


INJECTIONS: dict[str, Callable[[int], LabelledRun]] = {
    "func_multimodal": func_multimodal,
    "multigrid": multigrid,
    "mpi_comm_outlier": mpi_comm_outlier,
    "mpi_threaded_comm_outlier": mpi_threaded_comm_outlier,
    "multiinstance_nompi": multiinstance_nompi,
    "simple_workflow": simple_workflow,
    "openmp_cpu": openmp_cpu,
    "c_from_python": c_from_python,
    "python_hello": python_hello,
    "cupti kernels": cupti_kernels,
    "cupti multi-stream": cupti_multistream,
    "zmq_worker_client": zmq_worker_client,
}
