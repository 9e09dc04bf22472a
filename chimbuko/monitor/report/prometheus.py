"""Samples as Prometheus' text, for a node exporter's folder of text files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from chimbuko.core.files import write_atomically
from chimbuko.monitor.procfs.gpuspan import BUSY, GB, MEMORY, POWER
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import Span


def exposition(total: Span, identities: Mapping[int, Identity], node: str) -> str:
    """Counters of threads since they were first seen, of cores and memory, in seconds and bytes."""
    return "".join(f"{line}\n" for line in _lines(total, identities, node))


def write_exposition(path: Path, text: str) -> None:
    """Put it in place of the one before, so that a scrape finds one of both whole."""
    write_atomically(path, text.encode())


def _thread_lines(total: Span, identities: Mapping[int, Identity], node: str) -> Iterator[str]:
    threads = []
    for one in total.threads.values():
        labels = {"node": node, "rank": _rank(one.pid, identities), "pid": one.pid, "tid": one.tid}
        labels["kind"] = one.kind
        threads.append((labels, one))
    yield from _metric(
        "thread_seconds_total",
        "counter",
        "Time of a thread, by what it did: in the program, in the kernel, ready and waiting for a core.",
        [
            (labels | {"mode": mode}, value)
            for labels, one in threads
            for mode, value in (("user", one.user_s), ("system", one.system_s), ("wait", one.waited_s))
            if value is not None
        ],
    )
    yield from _metric(
        "thread_switches_total",
        "counter",
        "How often a thread gave up its core, and how often it was taken from it.",
        [
            (labels | {"kind_of_switch": kind}, value)
            for labels, one in threads
            for kind, value in (("voluntary", one.voluntary), ("involuntary", one.involuntary))
        ],
    )


def _lines(total: Span, identities: Mapping[int, Identity], node: str) -> Iterator[str]:
    yield from _thread_lines(total, identities, node)
    yield from _metric(
        "core_seconds_total",
        "counter",
        "Time of a hardware thread.",
        [
            ({"node": node, "cpu": cpu, "mode": mode}, value)
            for cpu, core in sorted(total.cores.items())
            for mode, value in (("user", core.user_s), ("system", core.system_s), ("idle", core.idle_s))
        ],
    )
    yield from _metric(
        "process_resident_bytes",
        "gauge",
        "Memory of a process.",
        [
            ({"node": node, "rank": _rank(pid, identities), "pid": pid}, one.resident_bytes)
            for pid, one in sorted(total.processes.items())
        ],
    )
    for name, metric_name, factor, meaning in (
        ("gpu_busy_ratio", BUSY, 0.01, "Share of the time in which a GPU ran a kernel."),
        ("gpu_memory_bytes", MEMORY, GB, "Memory of a GPU in use."),
        ("gpu_power_watts", POWER, 1.0, "Power of a GPU."),
    ):
        values: list[tuple[dict[str, object], float]] = [
            ({"node": node, "gpu": number, "name": gpu.name}, factor * gpu.metrics[metric_name].last)
            for number, gpu in sorted(total.gpus.items())
            if metric_name in gpu.metrics
        ]
        if values:
            yield from _metric(name, "gauge", meaning, values)
    if total.memory is not None:
        available = total.memory.available_bytes
        yield from _metric(
            "node_available_bytes", "gauge", "Memory that is left.", [({"node": node}, available)]
        )


def _rank(pid: int, identities: Mapping[int, Identity]) -> str:
    """Return the rank of a process; empty if it is not known."""
    identity = identities.get(pid)
    return "" if identity is None or identity.rank is None else str(identity.rank)


def _metric(
    name: str, kind: str, meaning: str, samples: list[tuple[dict[str, object], float]]
) -> Iterator[str]:
    yield f"# HELP chimbuko_monitor_{name} {meaning}"
    yield f"# TYPE chimbuko_monitor_{name} {kind}"
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(str(text))}"' for label, text in labels.items())
        yield f"chimbuko_monitor_{name}{{{shown}}} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
