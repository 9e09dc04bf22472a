"""Whatever happens to the analysis, the application ends normally, in its time, with all steps written.

Over files nothing is lost either; over SST what is lost is counted. A small version of it; ``make soak`` does
everything with 16 streams at once, again and again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from chimbuko.runtime.process.signals import END
from tests.calldata import no_loss
from tests.integration.beside import (
    EXIT_CODE,
    GUARD,
    LONGEST_HOLD_S,
    LONGEST_STEP_S,
    TRANSPORTS,
    Application,
    begin,
    check,
    keep_agent_stopped,
    kill,
    kill_agent_after,
    kill_agent_before,
    kill_agent_while_readers_join,
    kill_everything,
    kill_joining_readers,
    kill_readers,
    slow_readers,
    stop_agent,
    stop_agent_for_good,
    stop_agent_while_readers_join,
    stop_joining_readers,
    stop_reader,
)
from tests.integration.conftest import AGENT, BROKER, SERVER, STAND_IN, STORE, Start, command_line
from tests.thorough import first

PERIOD_S = 0.2
UNHURRIED_PERIOD_S = 2.0
"""In the first period all readers have come."""
LONG_PERIOD_S = 4.0
"""So long do readers over SST wait to be let in."""
GUARD_LINGERS_S = 60.0
"""Longer than a guard stays where nobody needs it."""

Disturb = Callable[[Application], None]
over_both = pytest.mark.parametrize("transport", TRANSPORTS)
riskier_first = pytest.mark.parametrize("transport", first(1, ["sst", "files"]))


@pytest.mark.thorough
@over_both
def test_undisturbed(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(
        start, tmp_path, streams=2, seconds=6, period_s=UNHURRIED_PERIOD_S, transport=transport
    )
    check(application)
    for stream in application.run.health:
        assert (stream.state, stream.gap_steps, stream.losses) == ("ended", 0, {})
    assert no_loss(application.run.output)


@riskier_first
def test_readers_die_stop_and_are_slow(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(start, tmp_path, streams=3, seconds=5, transport=transport, is_held=True)
    for disturb in (kill_readers, stop_reader, slow_readers):
        disturb(application)
    application.release()
    check(application)
    assert {stream.state for stream in application.run.health} == {"ended"}


@pytest.mark.thorough
@riskier_first
def test_readers_die_while_they_join(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(start, tmp_path, streams=2, seconds=12, period_s=LONG_PERIOD_S, transport=transport)
    kill_joining_readers(application)
    check(application)


@pytest.mark.thorough
@riskier_first
def test_whole_agent_is_stopped_for_good(transport: str, start: Start, tmp_path: Path) -> None:
    """The application is held up for no longer than is said, over files not at all; then all that can be
    read is read."""
    application = begin(start, tmp_path, streams=2, seconds=4, transport=transport)
    stop_agent_for_good(application)
    check(application)
    for process in application.reported:
        assert process["close_s"] < LONGEST_STEP_S + (LONGEST_HOLD_S if transport == "sst" else 0.0)


@pytest.mark.thorough
@over_both
def test_whole_agent_is_kept_stopped(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(start, tmp_path, streams=2, seconds=8, transport=transport)
    keep_agent_stopped(application)
    check(application)
    for process in application.reported:
        assert process["close_s"] < LONGEST_STEP_S + (LONGEST_HOLD_S if transport == "sst" else 0.0)


@riskier_first
@pytest.mark.parametrize("is_reported", first(1, [True, False]))
def test_all_of_ours_are_killed_at_once(
    is_reported: bool, transport: str, start: Start, tmp_path: Path
) -> None:
    """Their guard stays, and removes what is left; half a minute later, where nobody tells it to end."""
    application = begin(start, tmp_path, streams=2, seconds=6, transport=transport)
    guard = application.run.service(GUARD)
    folder = guarded_by(guard)
    assert folder.is_dir()
    kill_everything(application)
    wait_for(lambda: application.has_ended and (tmp_path / "code").exists())
    assert int((tmp_path / "code").read_text()) == EXIT_CODE
    for process in application.reported:
        assert process["steps"] > 0
        assert max(process["held_s"]) < LONGEST_STEP_S
    if is_reported:
        os.kill(guard, END)
    wait_for(lambda: not folder.exists())


def guarded_by(guard: int) -> Path:
    """The folder that a guard looks after."""
    found = re.search(r"--folder (\S+)", command_line(guard))
    assert found
    return Path(found[1])


def wait_for(condition: Callable[[], bool], timeout_s: float = GUARD_LINGERS_S) -> None:
    """Where there is no launcher any more that could be asked."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@over_both
@pytest.mark.thorough
def test_services_are_killed(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(start, tmp_path, streams=2, seconds=5, transport=transport, is_held=True)
    for module in (AGENT, STORE, BROKER):
        kill(module)(application)
    application.release()
    check(application)
    assert application.run.output.count("ended early") >= 3


@over_both
@pytest.mark.thorough
def test_nothing_happens_to_readers_that_join(transport: str, start: Start, tmp_path: Path) -> None:
    application = begin(start, tmp_path, streams=2, seconds=10, period_s=LONG_PERIOD_S, transport=transport)
    kill_agent_while_readers_join(application)
    application.run.wait_until(lambda: "ended early" in application.run.output)
    stop_joining_readers(application)
    check(application)
    assert {stream.state for stream in application.run.health} == {"ended"}


@over_both
@pytest.mark.thorough
def test_agent_is_killed_before_and_after_the_application(
    transport: str, start: Start, tmp_path: Path
) -> None:
    application = begin(start, tmp_path, streams=2, seconds=4, delay_s=2, transport=transport)
    kill_agent_before(application)
    kill_agent_after(application)
    check(application)
    assert application.run.health


def test_refuses_settings_that_would_hang_tau(start: Start) -> None:
    """The stand-in itself fails where real TAU would wait for ever: the settings are what keeps it alive."""
    command = ["env", "-u", "TAU_ADIOS2_SELECT_FILE", *STAND_IN, "true"]
    run = start("--transport", "sst", "--no-dashboard", "--", *command)
    assert run.end() == 99


DISTURBANCES: dict[str, Disturb] = {
    "nothing": lambda application: None,
    "readers killed": kill_readers,
    "reader stopped": stop_reader,
    "readers slow": slow_readers,
    "whole agent stopped": stop_agent,
    "whole agent stopped for good": stop_agent_for_good,
    "whole agent kept stopped": keep_agent_stopped,
    "whole agent stopped while readers join": stop_agent_while_readers_join,
    "agent killed before": kill_agent_before,
    "agent killed": kill(AGENT),
    "agent killed after": kill_agent_after,
    "agent killed while readers join": kill_agent_while_readers_join,
    "joining readers killed": kill_joining_readers,
    "joining readers stopped": stop_joining_readers,
    "store's writer killed": kill(STORE),
    "broker killed": kill(BROKER),
    "server killed": kill(SERVER),
}


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("turn", range(5))
@pytest.mark.parametrize("streams", [1, 16])
@over_both
@pytest.mark.parametrize("disturbance", DISTURBANCES)
def test_soak(
    disturbance: str, transport: str, streams: int, turn: int, start: Start, tmp_path: Path
) -> None:
    delay_s = 2.0 if disturbance == "agent killed before" else 0.0
    period_s = LONG_PERIOD_S if "join" in disturbance else PERIOD_S
    application = begin(start, tmp_path, streams, 12, period_s, delay_s, transport=transport)
    DISTURBANCES[disturbance](application)
    check(application)
