"""The budget adds up, whatever was called, and says in words where the time went."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.provenance.incidents.budget import Budget, Lost, Sampled, make_budget

times = st.floats(0, 1e9)
FUNCTIONS = (
    *("relax [{a.c} {3,0}]", "MPI_Recv()", "MPI_Allreduce()", "MPI_Isend()", "MPI_File_write()", "fread()"),
    *("cudaDeviceSynchronize", "main", "read [{a.c} {9,0}]", "await sleep in aio.fetch"),
)


def shares_of(budget: Budget) -> dict[str, float]:
    return dict(msgspec.structs.asdict(budget.shares))


@given(
    st.dictionaries(st.sampled_from(FUNCTIONS), times),
    times,
    st.one_of(st.none(), st.builds(Sampled, times, times, times)),
    times,
)
def test_all_time_is_divided_without_rest(
    spent: dict[str, float], total_us: float, sampled: Sampled | None, gpu_us: float
) -> None:
    budget = make_budget(1e6, 4, total_us, spent, gpu_us, sampled, Lost())
    shares = shares_of(budget)
    assert math.isclose(sum(shares.values()), budget.total_us, rel_tol=1e-6, abs_tol=1e-3)
    assert budget.total_us >= total_us
    assert all(us >= -1e-3 for us in shares.values())
    if not gpu_us:
        own_us = sum(one.own_us for one in budget.functions)
        assert own_us <= sum(us for name, us in spent.items() if not name.startswith("MPI")) + 1.0
    assert budget.sentence


def test_functions_are_told_apart_by_what_they_do() -> None:
    spent = {name: 10.0**at for at, name in enumerate(FUNCTIONS)}
    shares = shares_of(make_budget(1e9, 1, 0.0, spent, 0.0, None, Lost()))
    assert shares["computing_us"] == 1.0 + 1e7 + 1e8, "a function of the program is none of a library"
    assert (shares["point_to_point_us"], shares["collective_us"], shares["other_mpi_us"]) == (10, 100, 1000)
    assert (shares["io_us"], shares["gpu_us"]) == (1e4 + 1e5, 1e6)


def test_samples_say_how_long_threads_slept_and_waited_for_a_core() -> None:
    """Ranks of 10 s in all slept 1 s; of the rest they had a core for a quarter."""
    spent = {"relax": 5e6, "MPI_Recv()": 5e6}
    sampled = Sampled(watched_us=5e6, ran_us=1.125e6, waited_us=3.375e6)
    shares = shares_of(make_budget(5e6, 2, 10e6, spent, 0.0, sampled, Lost()))
    assert shares["asleep_us"] == 1e6
    assert shares["waiting_us"] == 6.75e6
    assert (shares["computing_us"], shares["point_to_point_us"]) == (1e6, 1.25e6)


def test_who_awaits_is_asleep() -> None:
    spent = {"await sleep in aio.fetch": 6e6, "aio.parse": 4e6}
    sampled = Sampled(watched_us=4e6, ran_us=3e6, waited_us=1e6)
    for known, computing_us in ((None, 4e6), (sampled, 3e6)):
        budget = make_budget(10e6, 1, 10e6, spent, 0.0, known, Lost())
        shares = shares_of(budget)
        assert (shares["asleep_us"], shares["computing_us"]) == (6e6, computing_us)
        assert [one.function for one in budget.functions] == ["aio.parse"]
        assert f"60 % {'asleep' if known else 'awaiting'}" in budget.sentence
        assert budget.sentence.startswith("1 thread in 10 s")
        tasks = make_budget(10e6, 5, 10e6, spent, 0.0, known, Lost())
        assert tasks.sentence.startswith("5 threads and tasks in 10 s")


def test_budget_is_a_sentence() -> None:
    spent = {"relax [{a.c} {3,0}]": 30e6, "pack": 10e6, "MPI_Recv()": 40e6, "MPI_Barrier()": 10e6}
    lost = Lost(incidents_us=2e6, analysis_us=0.5e6)
    budget = make_budget(25e6, 4, 100e6, spent, 0.0, None, lost)
    assert budget.sentence == (
        "4 threads in 25 s: 100 s, 40 % computing or asleep, "
        "50 % MPI (point to point 40 %, collective 10 %), 10 % not recorded; "
        "own code: relax 30 %, pack 10 %; "
        "lost: 2 s (2 %) in incidents, 500 ms (0.5 %) to the analysis"
    )


def test_what_a_function_slept_is_told_with_it_and_one_thread_has_one_time() -> None:
    spent = {"fetch": 8e6, "parse": 2e6}
    sampled = Sampled(watched_us=10e6, ran_us=2.5e6, waited_us=0.0)
    budget = make_budget(10e6, 1, 10e6, spent, 0.0, sampled, Lost(), slept_us={"fetch": 7.5e6, "parse": 1e4})
    assert budget.sentence == (
        "1 thread in 10 s: 25 % computing, 75 % asleep; "
        "own code: fetch 80 % (asleep 75 %), parse 20 %; lost: nothing"
    )
    assert [one.slept_us for one in budget.functions] == [7.5e6, 1e4]


@pytest.mark.parametrize(
    ("threads", "total_us", "told"),
    [
        (1, 9.84e6, "1 thread in 9.84 s: 98 % computing or asleep, 2.4 % not recorded; "),
        (1, 9.79e6, "1 thread in 9.84 s: 98 % computing or asleep, 1.9 % not recorded; "),
        (1, 9.61e6, "1 thread in 9.84 s: 9.61 s, 100 % computing or asleep; "),
        (2, 9.79e6, "2 threads in 9.84 s: 9.79 s, 98 % computing or asleep, 1.9 % not recorded; "),
    ],
)
def test_the_time_of_the_only_thread_is_told_once(threads: int, total_us: float, told: str) -> None:
    budget = make_budget(9.84e6, threads, total_us, {"f": 9.6e6}, 0.0, None, Lost())
    assert budget.sentence.startswith(told)


def test_of_a_run_without_a_record_of_its_threads_no_share_is_told() -> None:
    budget = make_budget(51.3e6, 0, 0.0, {}, 0.0, None, Lost(incidents_us=8.49e6))
    assert budget.sentence == "51.3 s, and where this went is not on record; lost: 8.49 s in incidents"


def test_functions_with_too_few_calls_are_a_line() -> None:
    spent = {"setup": 3e6, "main": 1e5, "relax": 56.9e6}
    budget = make_budget(60e6, 1, 0.0, spent, 0.0, None, Lost(), ["main", "setup", "unknown"])
    assert [one.function for one in budget.not_judged] == ["setup", "main"]
    assert budget.not_judged_line == "2 functions, 3.10 s (5.2 %), with too few calls to compare: setup, main"
    assert make_budget(60e6, 1, 0.0, spent, 0.0, None, Lost(), []).not_judged_line == ""


def test_threads_between_parallel_regions_wait_for_others_but_where_the_trace_was_lost() -> None:
    spent = {"relax [{a.c} {3,0}]": 6e6, "OpenMP barrier solve [{a.c} {9,0}]": 1e6}
    shares = shares_of(make_budget(5e6, 2, 10e6, spent, 0.0, None, Lost()))
    assert (shares["threads_us"], shares["not_recorded_us"]) == (4e6, 0.0)
    shares = shares_of(make_budget(5e6, 2, 10e6, spent, 0.0, None, Lost(), is_whole=False))
    assert (shares["threads_us"], shares["not_recorded_us"]) == (1e6, 3e6)
    shares = shares_of(make_budget(5e6, 2, 10e6, {"relax": 6e6}, 0.0, None, Lost()))
    assert shares["not_recorded_us"] == 4e6
