"""Check of the cores, memory and settings of a node for ``chimbuko doctor``, as the monitor measures them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.cores import FOREIGN_SHARE
from chimbuko.monitor.report.limits import memory_low
from chimbuko.monitor.report.profile import (
    load,
    node_differences,
    profile_of,
    setting_differences,
    settings_in,
)
from chimbuko.monitor.sampling.difference import difference
from chimbuko.monitor.sampling.sampler import Sampler
from chimbuko.monitor.sampling.span import Span


class Finding(msgspec.Struct, frozen=True):
    """Result of one check."""

    about: str
    state: str
    """``ok``, ``warning`` (it works, but) or ``problem``."""
    text: str
    advice: str = ""
    """Advice on what to do; empty if nothing is."""


LOOK_S = 0.5


def check_node(baseline: Path | None) -> list[Finding]:
    """Check a node before a job starts; return what was found.

    Parameters
    ----------
    baseline
        Folder of the tables of a good run, to compare with.

    Raises
    ------
    ConfigError
        There is no profile in that folder.
    """
    sampler = Sampler()
    earlier = sampler.sample([os.getpid()])
    time.sleep(LOOK_S)
    span = difference(earlier, sampler.sample([os.getpid()]))
    sampler.close()
    found = list(_load(span))
    if baseline is not None:
        found += _compared(baseline, span)
    return found


def _load(span: Span) -> Iterator[Finding]:
    allowed = os.sched_getaffinity(0)
    busy = [
        cpu for cpu, core in span.cores.items() if cpu in allowed and core.share(core.busy_s) > FOREIGN_SHARE
    ]
    if busy:
        yield Finding(
            "cores",
            "warning",
            f"{len(busy)} of {len(allowed)} ({format_cpulist(busy)}) are busy before the job starts",
            "look for what runs there (top), or ask for nodes of your own",
        )
    else:
        yield Finding("cores", "ok", f"{len(allowed)} ({format_cpulist(allowed)}), idle")
    for low in memory_low(span):
        yield Finding("memory", "warning", low.text, low.advice)


def _compared(folder: Path, span: Span) -> list[Finding]:
    node = socket.gethostname()
    good = load(folder, node)
    pairs = list(node_differences(good, profile_of(span, {}, node)))
    if good.processes:
        pairs += setting_differences(good.processes[0].variables, settings_in(os.environ))
    if not pairs:
        return [Finding("good run", "ok", f"this node is as in {folder}")]
    return [Finding("good run", "warning", text, advice) for text, advice in pairs]
