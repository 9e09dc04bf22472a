"""Profile of a run on a node, kept beside its tables, and its differences from another run's."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from chimbuko.core.errors import ConfigError
from chimbuko.core.files import write_atomically
from chimbuko.core.units import format_share, number_of
from chimbuko.monitor.procfs.numbers import format_cpulist, parse_cpulist
from chimbuko.monitor.report.finding import Finding, workers
from chimbuko.monitor.sampling.identity import Identity
from chimbuko.monitor.sampling.span import Span

SETTINGS = (
    *("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "MPICH_", "UCX_", "FI_"),
    *("CUDA_VISIBLE_", "ROCR_VISIBLE_", "HIP_VISIBLE_", "SLURM_CPUS_PER_TASK", "SLURM_CPU_BIND"),
)
"""Beginnings of variables that are the same in two runs that are started alike."""
SHARE = 0.10
"""Share of the time by which two runs must differ."""
LONGER = 1.2
MORE_MEMORY = 1.5


class Process(msgspec.Struct, frozen=True):
    """One process that worked."""

    rank: int | None
    cpus: str
    workers: int
    """Threads that wanted to run."""
    busy_share: float
    """Mean share of the time in which these threads ran."""
    waited_share: float
    """Largest share of the time in which one of these threads waited for a core."""
    system_share: float
    """Largest share of the time that one of these threads spent in the kernel."""
    peak_bytes: int
    variables: dict[str, str]


class Profile(msgspec.Struct, frozen=True):
    """A node, and a program on it."""

    node: str
    seconds: float
    cores: int
    memory_bytes: int
    """Memory of the node, in bytes; 0 if it is not known."""
    processes: list[Process]


def profile_of(span: Span, identities: Mapping[int, Identity], node: str) -> Profile:
    """Return the profile of a run: its processes with a thread that wanted to run, by rank."""
    found = []
    for pid, one in identities.items():
        own = [thread for thread in workers(span) if thread.pid == pid]
        if not own:
            continue
        cpus = {cpu for thread in own for cpu in thread.cpus}
        memory = span.processes.get(pid)
        found.append(
            Process(
                rank=one.rank,
                cpus=format_cpulist(cpus),
                workers=len(own),
                busy_share=sum(thread.busy_share for thread in own) / len(own),
                waited_share=max(thread.waited_share or 0.0 for thread in own),
                system_share=max(thread.system_s / (thread.seconds or 1.0) for thread in own),
                peak_bytes=memory.peak_bytes if memory else 0,
                variables=settings_in(one.variables),
            )
        )
    found.sort(key=lambda process: (process.rank is None, process.rank or 0))
    total_bytes = span.memory.total_bytes if span.memory else 0
    return Profile(node, span.seconds, len(span.cores) or os.cpu_count() or 1, total_bytes, found)


def settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are the same in any two runs that are started alike."""
    return {name: value for name, value in environment.items() if name.startswith(SETTINGS)}


def save(profile: Profile, folder: Path) -> None:
    """Write ``profile.NODE.json`` into the folder of a run's tables."""
    data = msgspec.json.format(msgspec.json.encode(profile))
    write_atomically(folder / f"profile.{profile.node}.json", data)


def load(folder: Path, node: str) -> Profile:
    """Return the profile of a good run: of this node, or else of its first one.

    Raises
    ------
    ConfigError
        There is none, or it is damaged.
    """
    paths = sorted(folder.glob("profile.*.json"))
    own = folder / f"profile.{node}.json"
    if not paths:
        made = f"chimbuko monitor --csv {shlex.quote(str(folder))} -- COMMAND"
        raise ConfigError(f"{folder}: no profile of a run; make one with: {made}")
    path = own if own in paths else paths[0]
    try:
        return msgspec.json.decode(path.read_bytes(), type=Profile)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"{path}: not a profile of a run ({error})") from error


def differences(good: Profile, now: Profile) -> list[Finding]:
    """Return the differences of a run from a good one, in its start and in what it did."""
    return [
        Finding("differs from the good run", text, advice)
        for text, advice in (*node_differences(good, now), *_launch(good, now), *_behaviour(good, now))
    ]


def node_differences(good: Profile, now: Profile) -> Iterator[tuple[str, str]]:
    """Hardware that the other run did not have, or had more of."""
    if good.cores != now.cores:
        yield (
            f"the node has {number_of(now.cores, 'cores')}, in the good run {good.cores}",
            "ask for the same nodes",
        )
    if good.memory_bytes and abs(now.memory_bytes - good.memory_bytes) > SHARE * good.memory_bytes:
        yield (
            f"the node has {_gb(now.memory_bytes)} of memory, in the good run {_gb(good.memory_bytes)}",
            "ask for the same nodes",
        )


def setting_differences(good: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that are not as they were."""
    for name in sorted(good.keys() | now.keys()):
        if good.get(name) != now.get(name):
            yield (
                f"{name} is {now.get(name, 'not set')}, in the good run {good.get(name, 'not set')}",
                f"export {name}={good[name]}" if name in good else f"unset {name}",
            )


def _launch(good: Profile, now: Profile) -> Iterator[tuple[str, str]]:
    ranks = len(now.processes)
    if ranks != len(good.processes):
        yield (
            f"{number_of(ranks, 'processes')} work on this node, in the good run {len(good.processes)}",
            "start as many",
        )
        return
    for then, one in zip(good.processes, now.processes, strict=True):
        who = _name(one)
        if then.cpus != one.cpus:
            yield (
                f"{who} may use cores {one.cpus}, in the good run {then.cpus}",
                "bind it as there (srun -c, --bind-to)",
            )
        if then.workers != one.workers:
            yield (
                f"{who} has {number_of(one.workers, 'threads')} that want to run, "
                f"in the good run {then.workers}",
                "set OMP_NUM_THREADS as there",
            )
    if good.processes:
        yield from setting_differences(good.processes[0].variables, now.processes[0].variables)


def _behaviour(good: Profile, now: Profile) -> Iterator[tuple[str, str]]:
    if good.seconds > 0 and now.seconds > LONGER * good.seconds:
        yield (
            f"it took {now.seconds:.0f} s, the good run {good.seconds:.0f} s{_on_cores(good, now)}",
            "see what else differs",
        )
    if len(good.processes) != len(now.processes):
        return
    for then, one in zip(good.processes, now.processes, strict=True):
        for name, was, share, worse, advice in (
            ("is busy", then.busy_share, one.busy_share, -1, "see what it waits for"),
            ("waits for a core", then.waited_share, one.waited_share, 1, "see who else runs there"),
            ("is in the kernel", then.system_share, one.system_share, 1, "look for page faults (strace -c)"),
        ):
            if worse * (share - was) > SHARE:
                for_long = f"for {format_share(share)} of the time, in the good run {format_share(was)}"
                yield f"{_name(one)} {name} {for_long}", advice
        if then.peak_bytes and one.peak_bytes > MORE_MEMORY * then.peak_bytes:
            yield (
                f"{_name(one)} holds {_gb(one.peak_bytes)}, in the good run {_gb(then.peak_bytes)}",
                "see what has grown",
            )


def _on_cores(good: Profile, now: Profile) -> str:
    """Return whether the good run had as many cores, or how many."""
    cores, own = (
        len({cpu for one in profile.processes for cpu in parse_cpulist(one.cpus)}) for profile in (good, now)
    )
    return " on as many cores" if cores == own else f" on {number_of(cores, 'cores')} instead of {own}"


def _name(process: Process) -> str:
    return "the program" if process.rank is None else f"rank {process.rank}"


def _gb(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.1f} GB"
