"""Troubles are said once, waited for longer each time, and not for ever at the end."""

from __future__ import annotations

from chimbuko.core.errors import ServiceError
from chimbuko.provenance.service.steps import GiveUp, Pause, Report
from chimbuko.provenance.service.writercore import FIRST_RETRY_S, LAST_RETRY_S, STOP_GRACE_S, Troubles
from chimbuko.provenance.store.engine import StoreBusy

BUSY, AWAY = StoreBusy("held"), ServiceError("away")


def failed(troubles: Troubles, now_s: float, error: StoreBusy | ServiceError) -> Pause:
    pause = troubles.failed(now_s, error, False)
    troubles.validate_state()
    assert isinstance(pause, Pause)
    return pause


def test_each_kind_is_said_once_and_its_end_once() -> None:
    troubles = Troubles()
    assert troubles.over(0.0) is None
    first, second, third = (failed(troubles, 1.0, error) for error in (BUSY, BUSY, AWAY))
    assert first == Pause("held; records wait until it works again", FIRST_RETRY_S)
    assert second == Pause("", 2 * FIRST_RETRY_S)
    assert third.line.startswith("away")
    assert max(failed(troubles, 2.0, AWAY).pause_s for _ in range(20)) == LAST_RETRY_S
    assert troubles.over(5.0) == Report("records are stored again, after 4.0 s")
    troubles.validate_state()
    assert troubles.over(6.0) is None
    assert failed(troubles, 7.0, AWAY) == Pause("away; records wait until it works again", FIRST_RETRY_S)


def test_it_gives_up_some_time_after_it_failed_while_being_asked_to_stop() -> None:
    troubles = Troubles()
    failed(troubles, 0.0, BUSY)
    assert isinstance(troubles.failed(100.0, BUSY, True), Pause)
    assert isinstance(troubles.failed(100.0 + STOP_GRACE_S, BUSY, True), Pause)
    assert troubles.failed(100.1 + STOP_GRACE_S, BUSY, True) == GiveUp(BUSY)
