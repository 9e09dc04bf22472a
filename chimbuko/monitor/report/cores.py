"""Findings about cores: too many threads on them, load of others, none at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from chimbuko.core.units import format_share, number_of
from chimbuko.monitor.procfs.numbers import format_cpulist
from chimbuko.monitor.report.finding import Finding, cut_off_per_s, number_of_processes, workers
from chimbuko.monitor.report.threads import taking_turns
from chimbuko.monitor.sampling.others import foreign_s
from chimbuko.monitor.sampling.ownrun import is_of_analysis, spoken
from chimbuko.monitor.sampling.sample import SAMPLER
from chimbuko.monitor.sampling.span import OtherLoad, Span, ThreadSpan

WAITED_SHARE = 0.10
"""Share of the time above which a thread that waits for its core counts as held up."""
CUT_OFF_PER_S = 50.0
"""Rate of involuntary switches above which threads share a core, if their waits are not known. Two threads on
one core reach it (130 per second with Linux' defaults); others do not (below 12 in all launches of ZeroSum's
paper that were not oversubscribed).
"""
BESIDE_PER_S = 5.0
"""A sampler that wakes up each second beside a worker cuts it off some 8 to 11 times a second."""
OWN_SHARE = 0.05
"""Share of the time for which others had the cores of threads that these must have had themselves to hold
each other up: to start fewer helps with no more than that."""
FOREIGN_SHARE = 0.20
ANALYSIS_SHARE = 0.05
"""Share of the cores that workers wait for, from which the report says what the analysis itself takes of
them.
"""
FEWER_AT_ONCE = 0.8
"""Share of the threads that have shared cores: when fewer share them at one time on average, the report says
how many.
"""
IDLE_SHARE = 0.95
NAMED_SHARE = 0.20
"""Share of others' load from which a process is named."""


def groups(span: Span) -> dict[tuple[int, ...], list[ThreadSpan]]:
    """Return the workers by the cores that they may use."""
    found: dict[tuple[int, ...], list[ThreadSpan]] = defaultdict(list)
    for thread in workers(span):
        if thread.cpus:
            found[thread.cpus].append(thread)
    return dict(found)


def is_held_up(thread: ThreadSpan) -> bool:
    """Whether it waits for its core, by the kernel's count, or else by how often it was cut off."""
    if thread.waited_share is not None:
        return thread.waited_share > WAITED_SHARE
    return cut_off_per_s(thread) > CUT_OFF_PER_S


def taken_cores(span: Span) -> Iterator[Finding]:
    """Threads wait for cores that each other, processes of others or ours have: who has them most comes
    first.
    """
    found = [*_oversubscribed(span), *_foreign_load(span), *_analysis_beside(span)]
    # Of two that are alike the program's own comes first: that can be helped.
    found.sort(key=lambda one: -one[0])
    return (finding for _, finding in found)


Taken = tuple[float, Finding]
"""Time for which others had cores that threads waited for, in seconds, and what is said of it."""


def _oversubscribed(span: Span) -> Iterator[Taken]:
    """More threads want to run than there are cores for them, and hold each other up."""
    for cpus, threads in groups(span).items():
        # Those are not held up by the core, and one each would not help them.
        in_turn = {thread.tid for of_one in taking_turns(span).values() for thread in of_one}
        threads = [thread for thread in threads if thread.tid not in in_turn]
        held_up = [thread for thread in threads if is_held_up(thread)]
        if len(held_up) < 2 or not _hold_each_other_up(span, cpus, threads):
            continue
        own_s = _ran_beside_s(threads)
        if own_s < OWN_SHARE * (own_s + foreign_s(span, cpus)):
            continue
        processes, cores = number_of_processes(threads), number_of(len(cpus), "cores")
        who = number_of(len(threads), "threads")
        who = who if processes == 1 else f"{who} of {number_of(processes, 'processes')}"
        at_once = _at_once(threads)
        if len(cpus) < round(at_once) < FEWER_AT_ONCE * len(threads):
            who += f", {at_once:.0f} at a time,"
        fewer = f"{len(cpus)} of them" if processes == 1 else f"{number_of(len(cpus), 'ranks')} here"
        yield (
            own_s,
            Finding(
                "oversubscribed",
                f"{who} share {cores} ({format_cpulist(cpus)}): "
                f"each runs {format_share(_mean_busy(threads))} of the time, "
                f"{_waiting(held_up)}{_for_whom(span, cpus, own_s, at_once)}",
                f"give each a core of its own (srun -c, mpirun --bind-to core), or start {fewer}",
                tuple(sorted(thread.tid for thread in threads)),
            ),
        )


def _ran_beside_s(threads: list[ThreadSpan]) -> float:
    """Return how long the others of these threads ran beside one of them, on average in seconds.

    While one waits its cores are theirs or a foreign process's: of two threads and eight spinners on a core,
    each waits nine tenths of the time, and one of these for the other thread.
    """
    return (len(threads) - 1) / len(threads) * sum(thread.user_s + thread.system_s for thread in threads)


def _for_whom(span: Span, cpus: tuple[int, ...], own_s: float, at_once: float) -> str:
    """Return whom these threads wait for, and what each could run without others; empty if there are none."""
    others_s = foreign_s(span, cpus)
    if others_s <= FOREIGN_SHARE * sum(span.cores[cpu].total_s for cpu in cpus if cpu in span.cores):
        return ""
    others = format_share(others_s / (own_s + others_s))
    own = format_share(own_s / (own_s + others_s))
    parts = [f"{others} for others", f"{own} for each other"]
    named = ", ".join(parts if others_s > own_s else parts[::-1])
    return f": {named}; without others each could run {format_share(min(1.0, len(cpus) / at_once))}"


def _at_once(threads: list[ThreadSpan]) -> float:
    """Return how many threads wanted a core at a time, on average over the life of the longest; where their
    waits are not known, how many there were. Of threads that come and go more are seen than that.
    """
    wanted_s = [t.seconds if t.waited_s is None else t.user_s + t.system_s + t.waited_s for t in threads]
    return sum(wanted_s) / max(thread.seconds for thread in threads)


def _hold_each_other_up(span: Span, cpus: tuple[int, ...], threads: list[ThreadSpan]) -> bool:
    """Whether more threads than cores wanted to run at a time, and not only others kept them from it.

    Without that a thread waits only while somebody else has a core that it may use: the waits of all are no
    longer than what others ran there.
    """
    waits_s = [thread.waited_s for thread in threads if thread.waited_s is not None]
    if len(threads) <= len(cpus):
        return False
    if len(waits_s) < len(threads):
        return _at_once(threads) > len(cpus)
    beyond_s = sum(waits_s) - foreign_s(span, cpus)
    return beyond_s > 2 * WAITED_SHARE * max(thread.seconds for thread in threads)


def _mean_busy(threads: list[ThreadSpan]) -> float:
    return sum(thread.busy_share for thread in threads) / len(threads)


def _waiting(threads: list[ThreadSpan]) -> str:
    shares = [thread.waited_share for thread in threads if thread.waited_share is not None]
    if shares:
        return f"and waits for a core up to {format_share(max(shares))} of it"
    return f"and is cut off up to {max(map(cut_off_per_s, threads)):.0f} times a second"


def sampler_beside(span: Span) -> Iterator[Finding]:
    """The sampler takes the core of a worker."""
    samplers = [thread for thread in span.threads.values() if thread.kind == SAMPLER]
    crowded = {tid for _, finding in _oversubscribed(span) for tid in finding.threads}
    for sampler in samplers:
        beside = [
            thread
            for thread in workers(span)
            if len(sampler.cpus) == 1
            and _has_run_on(thread, sampler.cpus[0])
            and thread.tid not in crowded
            and BESIDE_PER_S < cut_off_per_s(thread) <= CUT_OFF_PER_S
        ]
        if beside:
            rate = max(map(cut_off_per_s, beside))
            yield Finding(
                "sampler beside a worker",
                f"the sampler shares core {sampler.cpus[0]} with thread "
                f"{', '.join(str(one.tid) for one in beside)}, which is cut off {rate:.0f} times a second",
                "leave it a core without a worker (--core)",
                tuple(one.tid for one in beside),
            )


def _has_run_on(thread: ThreadSpan, cpu: int) -> bool:
    """Whether it may have: it was seen there, or moved, or where it ran is not known."""
    return cpu in thread.cpus and (thread.processor in (cpu, -1) or thread.migrations > 0)


def _foreign_load(span: Span) -> Iterator[Taken]:
    """Processes that are not watched take time on cores that workers wait for."""
    waiting, cpus, total_s = _waited_for(span)
    not_own_s = foreign_s(span, cpus)
    taken_s = not_own_s - _analysis_s(span, not_own_s)
    own_s = sum(span.cores[cpu].busy_s for cpu in cpus) - not_own_s
    if taken_s > FOREIGN_SHARE * total_s:
        own_nice, their_nice = _niceness(span, waiting)
        is_behind = own_nice > their_nice
        text = (
            f"others take {format_share(taken_s / total_s)} of {_named(cpus)}, this program "
            f"{format_share(own_s / total_s)}; {len(waiting)} of its threads waited for a core; "
            f"{_whose(span, taken_s, total_s)}"
            f"{f'; it runs at niceness {own_nice}, and they at {their_nice}' if is_behind else ''}"
        )
        advice = (
            "start it without nice: they go first"
            if is_behind and own_nice > 0
            else "look for what else runs there (top), or ask for nodes of your own"
        )
        yield taken_s, Finding("foreign load", text, advice, tuple(sorted(one.tid for one in waiting)))


def _analysis_beside(span: Span) -> Iterator[Taken]:
    """Processes of ours take time on cores that workers wait for."""
    waiting, cpus, total_s = _waited_for(span)
    taken_s = _analysis_s(span, foreign_s(span, cpus))
    if taken_s > ANALYSIS_SHARE * total_s:
        longest = max(thread.waited_share or 0.0 for thread in waiting)
        who = number_of(len(waiting), "threads")
        yield (
            taken_s,
            Finding(
                "analysis beside workers",
                f"the analysis itself takes {format_share(taken_s / total_s)} of {_named(cpus)}, "
                f"for which {who} waited up to {format_share(longest)} of the time",
                "leave it cores without workers ('chimbuko model agents RUN' says how many)",
                tuple(sorted(thread.tid for thread in waiting)),
            ),
        )


def _waited_for(span: Span) -> tuple[list[ThreadSpan], set[int], float]:
    """Return the workers that wait for a core, the cores, and the time that these had all together."""
    waiting = [thread for thread in workers(span) if (thread.waited_share or 0.0) > WAITED_SHARE]
    cpus = {cpu for thread in waiting for cpu in thread.cpus} & span.cores.keys()
    return waiting, cpus, sum(span.cores[cpu].total_s for cpu in cpus)


def _named(cpus: set[int]) -> str:
    """``core 0``, ``cores 0-3``."""
    return f"core{'' if len(cpus) == 1 else 's'} {format_cpulist(cpus)}"


def _analysis_s(span: Span, not_own_s: float) -> float:
    """Return how much of the time that others took was taken by our own processes, in seconds."""
    return min(not_own_s, sum(one.seconds for (name, _), one in span.others.items() if is_of_analysis(name)))


def _foreign(span: Span) -> list[tuple[str, str, OtherLoad]]:
    """Return name, user and load of processes of others, the largest load first."""
    found = [(name, user, one) for (name, user), one in span.others.items() if not is_of_analysis(name)]
    return sorted(found, key=lambda one: -one[2].seconds)


def _whose(span: Span, taken_s: float, total_s: float) -> str:
    named = [
        f"{number_of(one.processes, 'processes')} of {user} ({spoken(name)}{_bound(span, one)}), "
        f"{format_share(min(one.seconds, taken_s) / total_s)}{' together' if one.processes > 1 else ''}"
        for name, user, one in _foreign(span)[:2]
        if one.seconds >= NAMED_SHARE * taken_s
    ]
    return f"others are {'; '.join(named)}" if named else "who they are is unknown"


def _bound(span: Span, one: OtherLoad) -> str:
    """Return the cores that others are bound to; empty where they may use all."""
    return f", bound to {_named(set(one.cpus))}" if one.cpus and not one.cpus >= span.cores.keys() else ""


def _niceness(span: Span, waiting: list[ThreadSpan]) -> tuple[int, int]:
    """Return the niceness of those that wait, and of the largest load beside them: as theirs where that is
    not known.
    """
    own = max((span.processes[one.pid].nice for one in waiting if one.pid in span.processes), default=0)
    return own, next((one.nice for _, _, one in _foreign(span)), own)


def undersubscribed(span: Span) -> Iterator[Finding]:
    """Cores that the program may use, and does not."""
    cpus = {cpu for cpus in groups(span) for cpu in cpus} & span.cores.keys()
    idle = {cpu for cpu in cpus if span.cores[cpu].share(span.cores[cpu].idle_s) > IDLE_SHARE}
    if idle:
        verb = "is" if len(idle) == 1 else "are"
        yield Finding(
            "undersubscribed",
            f"{len(idle)} of {number_of(len(cpus), 'cores')} ({format_cpulist(idle)}) {verb} idle",
            "start more threads or ranks (OMP_NUM_THREADS), or ask for fewer cores",
        )
