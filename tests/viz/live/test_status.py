"""The state of a run, and what is said about it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from chimbuko.core.calls.record import SILENT, Silence
from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.viz.live.status import Status, status
from chimbuko.viz.live.totals import LiveTotals
from tests.viz.made_run import STEP_US, ZERO_US, MadeRun


def judged(
    made: MadeRun,
    steps: int = 10,
    age_s: float = 0.5,
    silence_s: float = 0.5,
    broker_lost_s: float | None = None,
    silent_agents: Sequence[str] = (),
    **changes: object,
) -> Status:
    """Status of the made run, as if it went on and had analysed ``steps`` steps."""
    usual = {"state": "running", "exit_code": None, "started_us": ZERO_US}
    run: RunInfo = msgspec.structs.replace(made.directory.read_info(), **usual | changes)
    tally = LiveTotals()
    for step in range(steps):
        tally.add_frame(made.frame(step, step))
    now_us = ZERO_US + steps * STEP_US + round(age_s * 1e6)
    return status(tally.now(), run, now_us, silence_s, broker_lost_s, silent_agents)


def test_live_needs_no_words(finished: MadeRun) -> None:
    shown = judged(finished)
    assert (shown.state, shown.sentence) == ("live", "")
    assert shown.lag_us == 500_000
    assert shown.clock_us == 10 * STEP_US
    assert shown.anomalies == sum(row.total for row in finished.rank_statistics(10))
    assert (shown.ranks, shown.ranks_reporting, shown.last_step) == (5, 5, 9)


def test_behind_when_the_newest_step_is_old(finished: MadeRun) -> None:
    shown = judged(finished, age_s=14)
    assert shown.state == "behind"
    assert "14 s behind" in shown.sentence


def test_stale_when_nothing_comes(finished: MadeRun) -> None:
    shown = judged(finished, age_s=14, silence_s=14)
    assert shown.state == "stale"
    assert shown.sentence.startswith("No step for 14 s (last: 9).")
    assert judged(finished, steps=0, silence_s=14).sentence.startswith("No step yet.")


def test_silent_agents_are_told_from_a_silent_application(finished: MadeRun) -> None:
    stale = judged(finished, age_s=30, silence_s=30)
    assert stale.sentence.endswith("The application ended, hangs, or agents are silent.")
    one = judged(finished, age_s=30, silence_s=30, silent_agents=["c042"])
    assert one.state == "stale" and one.sentence.endswith(
        "The agent of c042 is silent: stopped or killed? See the logs of the run."
    )
    some = judged(finished, silent_agents=["c042", "c043"])
    assert some.state == "live", "other ranks still give steps"
    assert some.sentence.startswith("2 agents are silent, that of c042 among them")


def test_long_periods_are_waited_for(finished: MadeRun) -> None:
    info = finished.directory.read_info()
    slow = msgspec.structs.replace(info.config, period_us=10_000_000)
    assert judged(finished, age_s=0, silence_s=14, config=slow).state == "live"
    assert judged(finished, age_s=0, silence_s=51, config=slow).state == "stale"


def test_a_lost_broker_is_told_from_a_silent_run(finished: MadeRun) -> None:
    shown = judged(finished, silence_s=20, broker_lost_s=12)
    assert shown.state == "stale"
    assert "broker has not answered for 12 s" in shown.sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"state": "finished", "exit_code": 0}, "Finished, exit 0."),
        ({"state": "finished", "exit_code": 3}, "Finished, exit 3."),
        ({"state": "finished", "exit_code": None}, "Finished."),
        ({"state": "interrupted"}, "Interrupted; what had been found is kept."),
    ],
)
def test_the_end_is_final_whatever_the_silence(
    finished: MadeRun, changes: dict[str, object], sentence: str
) -> None:
    shown = judged(finished, silence_s=500, broker_lost_s=400, **changes)
    assert (shown.state, shown.sentence, shown.lag_us) == ("ended", sentence, None)


def test_a_recorded_trace_has_no_lag(finished: MadeRun) -> None:
    shown = judged(finished, age_s=5_000, started_us=ZERO_US + 10**12)
    assert (shown.state, shown.lag_us) == ("live", None)


def test_unknown_loss_is_not_zero_loss(finished: MadeRun) -> None:
    assert judged(finished, steps=0).loss is None
    assert judged(finished, steps=10).loss == 0
    lossy = judged(finished, steps=30)
    assert lossy.loss == pytest.approx(4 / 150)
    assert lossy.losses == {"rows": 3, "steps": 4}


def test_silent_ranks_are_named_with_what_they_are_in(finished: MadeRun) -> None:
    info = msgspec.structs.replace(finished.directory.read_info(), state="running", started_us=ZERO_US)
    tally = LiveTotals()
    for step in range(10):
        tally.add_frame(finished.frame(step, step))
    reading = tally.now().health[0, 1]
    silence = Silence(ZERO_US, "MPI_Recv() [{solver.c} {12,0}]", ZERO_US)
    silent = msgspec.structs.replace(reading, state=SILENT, silence=silence)
    now_us = ZERO_US + 10 * STEP_US

    def shown() -> Status:
        return status(tally.now(), info, now_us, silence_s=0.1, broker_lost_s=None)

    tally.add_totals([], [], [silent])
    assert shown().sentence == "Rank 0:1 gives no step, it is in MPI_Recv()."
    assert shown().ranks_reporting == 4
    tally.add_totals([], [], [reading])
    assert shown().sentence, "older news do not wake a rank"
    tally.add_totals([], [], [msgspec.structs.replace(reading, steps=reading.steps + 1)])
    assert (shown().sentence, shown().ranks_reporting) == ("", 5)
    tally.add_totals([], [], [msgspec.structs.replace(silent, steps=reading.steps + 1)])
    tally.add_totals([], [], [msgspec.structs.replace(reading, steps=reading.steps + 1, state="broken")])
    assert tally.now().health[0, 1].state == "broken"
