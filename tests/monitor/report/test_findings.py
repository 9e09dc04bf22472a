"""Findings of made-up spans: each where it is so, and none where it is not."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from chimbuko.monitor.procfs.system import CoreTicks, NodeMemory
from chimbuko.monitor.report.findings import findings
from chimbuko.monitor.sampling.ownrun import ANOTHER_RUN, ITSELF
from chimbuko.monitor.sampling.sample import GroupCounters, GroupKills
from chimbuko.monitor.sampling.span import TICKS_PER_S, CoreSpan, OtherLoad, ProcessSpan, Span, ThreadSpan
from tests.monitor.sampling.made import span, thread

SAMPLER = thread(90, (1,), busy=0.01, kind="Sampler", state="S", still_periods=0)


def kinds(found: Span) -> list[str]:
    return [finding.kind for finding in findings(found)]


def four_under_the_lock(cpus: tuple[int, ...] = (0,), voluntary: int = 1600) -> list[ThreadSpan]:
    """Threads as measured: each runs a quarter of the time, and hands the lock on 160 times a second."""
    main = thread(1, cpus, busy=0.01, state="S", name="python3")
    one = thread(2, cpus, busy=0.245, waited_s=1.1, name="python3", voluntary=voluntary, involuntary=1600)
    return [main, *(replace(one, tid=tid, pid=1, kind="Python") for tid in range(2, 6))]


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (span(thread(1, busy=0.5, waited_s=5.0), thread(2, busy=0.5, waited_s=5.0)), "oversubscribed"),
        (
            span(
                thread(1, busy=0.5, waited_s=None, involuntary=1300),
                thread(2, busy=0.5, waited_s=None, involuntary=1300),
            ),
            "oversubscribed",
        ),
        (span(thread(1, busy=0.5, waited_s=5.0), cores={0: 1.0}), "foreign load"),
        # One after the other, beside foreign load.
        (
            span(*(thread(tid, busy=0.4, seconds=2.0, waited_s=1.2) for tid in range(1, 6)), cores={0: 1.0}),
            "foreign load",
        ),
        # One on each core, both taken by others, with the one that has started them.
        (
            span(
                *(thread(tid, (tid,), busy=0.4, waited_s=6.0) for tid in (0, 1)),
                thread(2, (1,), busy=0.01, waited_s=1.1),
                cores={0: 1.0, 1: 1.0},
            ),
            "foreign load",
        ),
        (span(thread(1, (0, 1, 2)), cores={0: 0.9, 1: 0.01, 2: 0.0}), "undersubscribed"),
        (span(thread(1, (0, 1), migrations=8)), "migrating"),
        (span(thread(1, busy=0.4, system_s=5.0)), "system-bound"),
        (span(thread(1, busy=0.0, state="S", still_periods=5)), "stuck"),
        (span(thread(1, busy=0.0, state="T", still_periods=5), thread(2)), "stopped"),
        (span(thread(1, (1,), involuntary=80), SAMPLER), "sampler beside a worker"),
        (span(thread(1), memory=NodeMemory(100 * 2**30, 2**30, 4 * 2**30)), "memory low"),
        (
            span(thread(1), processes={1: ProcessSpan(1, 1, 1, group=GroupCounters(97, 100, None))}),
            "memory low",
        ),
        (
            span(
                thread(1),
                processes={1: ProcessSpan(1, 1, 1, 0, 0, GroupCounters(0, None, 9), 1.0)},
            ),
            "throttled",
        ),
        # A control group that may use half a core, and nobody else on it.
        (
            span(
                thread(1, busy=0.5, waited_s=5.0),
                cores={0: 0.8},
                processes={1: ProcessSpan(1, 1, 1, 0, 0, GroupCounters(0, None, 9), 4.9)},
            ),
            "throttled",
        ),
        (span(thread(1, busy=0.1, state="D", blocked_periods=4)), "storage-bound"),
        (span(thread(1), kills={"job": GroupKills(1, 2**27, 2**27)}), "killed for memory"),
        (span(*four_under_the_lock()), "one at a time"),
        (span(*four_under_the_lock(cpus=(0, 1))), "one at a time"),
        (
            span(thread(1), processes={1: ProcessSpan(1, 1, 1, most_threads=1500)}),
            "too many threads",
        ),
    ],
)
def test_each_kind_alone(made: Span, kind: str) -> None:
    assert kinds(made) == [kind]
    (finding,) = findings(made)
    assert finding.text and finding.advice


@pytest.mark.parametrize(
    "made",
    [
        span(thread(1, (0,)), thread(2, (1,)), SAMPLER, cores={0: 0.9, 1: 0.9}),
        # It may run on the sampler's core, but never has; something else cuts it off.
        span(thread(1, (0, 1), involuntary=80, processor=0), SAMPLER),
        # The second thread of a core does next to nothing.
        span(thread(1, busy=0.98, waited_s=0.1), thread(2, busy=0.01, waited_s=0.1), cores={0: 1.0}),
        # A core is shared, and there is time enough for both.
        span(thread(1, busy=0.4, waited_s=0.3), thread(2, busy=0.4, waited_s=0.3), cores={0: 0.8}),
        # A poller wakes up now here and now there.
        span(thread(1, (0, 1), busy=0.02, waited_s=0.3, migrations=8)),
        # A shell waits for what it has started.
        span(thread(1, busy=0.0, state="S", still_periods=10), thread(2)),
        span(thread(1, busy=0.0, state="S", still_periods=4)),
        # Its worker has ended just now.
        span(thread(1, busy=0.0, state="S", still_periods=8), still_periods=1),
        span(thread(1), memory=NodeMemory(100 * 2**30, 2**30, 50 * 2**30)),
        span(),
    ],
)
def test_nothing_is_found_where_all_is_well(made: Span) -> None:
    assert kinds(made) == []


def test_ranks_that_share_cores_are_counted() -> None:
    ranks = [thread(tid, (0, 1), busy=0.5, waited_s=5.0) for tid in range(1, 5)]
    found = findings(span(*ranks, cores={0: 1.0, 1: 1.0}))[0]
    assert found.text.startswith("4 threads of 4 processes share 2 cores (0-1): each runs 50 % of the time")
    assert "or start 2 ranks here" in found.advice
    assert found.threads == (1, 2, 3, 4)


def test_own_threads_that_share_a_core_with_a_thief_have_both_findings() -> None:
    """Of three on a core two are its own: while each of these waits for 6.6 s, the thief runs for 3.2."""
    made = span(*(thread(tid, busy=0.34, waited_s=6.6) for tid in (1, 2)), cores={0: 1.0})
    own, foreign = findings(made)
    assert own.text == (
        "2 threads of 2 processes share 1 core (0): each runs 34 % of the time, and waits for a core up to "
        "66 % of it: 52 % for each other, 48 % for others; without others each could run 50 %"
    )
    assert foreign.kind == "foreign load" and foreign.text.startswith("others take 32 % of core 0")


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (
            span(
                *(thread(tid, busy=0.1, waited_s=9.0, pid=1) for tid in (1, 2)),
                cores={0: 1.0},
                others={("spin", "eve"): OtherLoad(8.0, 8)},
            ),
            [
                "others take 80 % of core 0, this program 20 %; 2 of its threads waited for a core; others "
                "are 8 processes of eve (spin), 80 % together",
                "2 threads share 1 core (0): each runs 10 % of the time, and waits for a core up to 90 % of "
                "it: 89 % for others, 11 % for each other; without others each could run 50 %",
            ],
        ),
        (
            span(
                *(thread(tid, (0, 1), busy=0.09, waited_s=9.1) for tid in range(4)),
                cores={0: 1.0, 1: 1.0},
            ),
            [
                "others take 82 % of cores 0-1, this program 18 %; 4 of its threads waited for a core; who "
                "they are is unknown",
                "4 threads of 4 processes share 2 cores (0-1): each runs 9 % of the time, and waits for a "
                "core up to 91 % of it: 86 % for others, 14 % for each other; without others each could "
                "run 50 %",
            ],
        ),
    ],
)
def test_who_takes_most_of_the_cores_that_threads_share_comes_first(made: Span, said: list[str]) -> None:
    assert [one.text for one in findings(made)] == said


def test_threads_that_only_others_keep_from_their_cores_hold_nobody_up() -> None:
    """Four threads on two cores with twenty spinners: of what each waits for, 5 % is of the other three."""
    starved = (thread(tid, (0, 1), busy=0.03, waited_s=9.7) for tid in range(4))
    assert kinds(span(*starved, cores={0: 1.0, 1: 1.0})) == ["foreign load"]


def test_of_others_the_analysis_comes_first_where_it_takes_most() -> None:
    made = span(
        thread(1, busy=0.3, waited_s=6.0),
        cores={0: 1.0},
        others={(ITSELF, "root"): OtherLoad(4.5), ("thief", "root"): OtherLoad(2.5)},
    )
    assert kinds(made) == ["analysis beside workers", "foreign load"]


def test_of_threads_that_come_and_go_it_is_said_how_many_there_are_at_a_time() -> None:
    main, *short = (thread(tid, busy=0.3, waited_s=5.0) for tid in range(1, 12))
    short = [replace(one, pid=1, seconds=4.0, waited_s=2.0) for one in short]
    (found,) = findings(span(main, *short))
    assert found.text.startswith("11 threads, 6 at a time, share 1 core (0): ")


def test_foreign_load_says_whose_share_is_whose() -> None:
    made = span(thread(1, busy=0.3, waited_s=6.0), cores={0: 1.0})
    (finding,) = findings(made)
    assert finding.text == (
        "others take 70 % of core 0, this program 30 %; 1 of its threads waited for a core; "
        "who they are is unknown"
    )
    own = replace(thread(2, busy=0.68), waited_s=0.1)
    assert "foreign load" not in kinds(span(thread(1, busy=0.3, waited_s=6.0), own, cores={0: 1.0}))


def test_threads_of_a_program_that_nobody_saw_are_no_load_of_others() -> None:
    """Such as those of a loop, which live for shorter than a period."""
    known = {1: ProcessSpan(1, 1, 1, cpu_s=9.5)}
    made = span(thread(1, busy=0.3, waited_s=6.0), processes=known, cores={0: 1.0})
    assert kinds(made) == []
    elsewhere = thread(2, (1,), busy=0.65)
    beside = replace(elsewhere, pid=1)
    assert kinds(replace(made, threads={**made.threads, 2: beside})) == ["foreign load"]


def test_what_the_analysis_itself_takes_is_no_foreign_load() -> None:
    others = {(ITSELF, "root"): OtherLoad(2.0), ("thief", "root"): OtherLoad(0.5)}
    made = span(thread(1, busy=0.7, waited_s=3.0), cores={0: 1.0}, others=others)
    (finding,) = findings(made)
    assert (finding.kind, finding.text) == (
        "analysis beside workers",
        "the analysis itself takes 20 % of core 0, for which 1 thread waited up to 30 % of the time",
    )
    beside = replace(made, threads={1: thread(1, busy=0.5, waited_s=5.0)})
    foreign, analysis = findings(beside)
    assert (
        foreign.text.endswith("waited for a core; who they are is unknown")
        and "30 % of core 0," in foreign.text
    )
    assert analysis.kind == "analysis beside workers"
    # Little of it, or nobody waits.
    few = {(ITSELF, "root"): OtherLoad(0.4), ("thief", "root"): OtherLoad(0.5)}
    assert kinds(replace(made, others=few)) == ["foreign load"]
    assert kinds(replace(made, threads={1: thread(1, busy=0.7)})) == []


@pytest.mark.parametrize(
    ("others", "named"),
    [
        ({("spin", "eve"): OtherLoad(7.0, 7)}, "7 processes of eve (spin), 70 % together"),
        (
            {("spin", "eve"): OtherLoad(6.0), ("cron", "root"): OtherLoad(0.1)},
            "1 process of eve (spin), 60 %",
        ),
        (
            {(ANOTHER_RUN, "eve"): OtherLoad(7.0, 3)},
            "3 processes of eve (another run of chimbuko), 70 % together",
        ),
    ],
)
def test_foreign_load_names_all_of_a_name_together(
    others: dict[tuple[str, str], OtherLoad], named: str
) -> None:
    (found,) = findings(span(thread(1, busy=0.3, waited_s=6.0), cores={0: 1.0}, others=others))
    assert found.text.endswith(f"others are {named}")


def test_who_is_nicer_than_others_is_told_so() -> None:
    made = span(
        thread(1, busy=0.1, waited_s=8.0),
        cores={0: 1.0},
        processes={1: ProcessSpan(1, 1, 1, nice=19)},
        others={("spin", "eve"): OtherLoad(9.0)},
    )
    (found,) = findings(made)
    assert found.text.endswith("it runs at niceness 19, and they at 0") and "nice" in found.advice
    (alike,) = findings(replace(made, others={("spin", "eve"): OtherLoad(9.0, nice=19)}))
    assert "nice" not in alike.text and "nodes of your own" in alike.advice


def test_threads_of_python_that_compute_at_once_want_cores_of_their_own() -> None:
    """As those in a library that lets go of the lock: they give no core up by themselves."""
    made = [replace(one, waited_s=7.5) for one in four_under_the_lock(voluntary=9)]
    assert kinds(span(*made)) == ["oversubscribed"]


def test_threads_of_a_pool_that_hardly_run_do_not_wait_for_the_interpreter() -> None:
    """They wake up often, and each time wait for a core that others have."""
    pool = [thread(tid, pid=1, name="python", busy=0.02, waited_s=2.0, voluntary=500) for tid in range(1, 5)]
    assert "one at a time" not in kinds(span(*pool, cores={0: 1.0}))


def test_what_the_host_takes_is_stolen_and_no_load_of_others() -> None:
    ticks = CoreTicks(4 * TICKS_PER_S, 0, 0, 0, 0, 0, 0, 6 * TICKS_PER_S, 0, 0)
    made = replace(span(thread(1, busy=0.4, waited_s=5.0)), cores={0: CoreSpan(0, ticks)})
    (found,) = findings(made)
    assert found.text == "the host of this virtual machine took 60 % of the time of core 0"


def test_who_was_killed_for_memory_is_told_how_much_there_was() -> None:
    (found,) = findings(span(thread(1), kills={"job": GroupKills(2, 2**27, 2**27)}))
    assert found.text == (
        "the kernel killed 2 processes (signal 9) of this program's control group, which used up to 128 MB "
        "of the 128 MB that it may use"
    )


def test_who_waits_for_storage_is_told_for_which_file() -> None:
    ticks = CoreTicks(TICKS_PER_S, 0, 0, TICKS_PER_S, 8 * TICKS_PER_S, 0, 0, 0, 0, 0)
    made = span(
        thread(1, busy=0.1, blocked_periods=8), processes={1: ProcessSpan(1, 1, 1, path="/data/out.h5")}
    )
    (found,) = findings(replace(made, cores={0: CoreSpan(0, ticks)}))
    assert found.text == (
        "1 thread of process 1 waited for storage in 80 % of the periods, with /data/out.h5 open; cores were "
        "idle for it for 8.0 s (iowait)"
    )
