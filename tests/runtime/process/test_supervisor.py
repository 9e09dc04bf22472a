"""Services that end early: started again where they can go on, and given up where not."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process import supervisor
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.signals import END
from chimbuko.runtime.process.supervisor import (
    LONGEST_PAUSE_S,
    MOST_IN_A_ROW,
    STEADY_S,
    Revivals,
    ServiceGroup,
    pause_s,
)

WAITS = "import signal; print('{}', flush=True); signal.pause()"
DIES = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
DIES_AT_FIRST = f"""from pathlib import Path
mark = Path(__file__).with_name("has died")
if not mark.exists():
    mark.touch()
    {DIES}
{WAITS}"""

Start = Callable[[str], Service]


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def group(problems: list[str]) -> Iterator[ServiceGroup]:
    one = ServiceGroup(problems)
    yield one
    one.stop(0.0)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a service whose module has this text."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def make(text: str) -> Service:
        (tmp_path / "made_service.py").write_text(text)
        return Service("made", "made_service", [], {}, tmp_path)

    return make


def kill(service: Service) -> None:
    service.process.send_signal(signal.SIGKILL)
    service.process.wait()


def test_what_can_go_on_is_started_again_but_not_for_ever(
    group: ServiceGroup, problems: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MOST_IN_A_ROW", 2)
    service = group.add(start(WAITS), can_go_on=True)
    group.wait_ready()
    assert group.look_after() == []
    kill(service)
    (line,) = group.look_after()
    assert "started again" in line
    service.wait_ready()
    kill(service)
    # So soon after its start it waits a moment: memory may be short.
    assert group.look_after() == []
    while not (lines := group.look_after()):
        time.sleep(0.01)
    assert lines == [line]
    service.wait_ready()
    kill(service)
    assert not group.is_given_up
    assert group.look_after() == problems and "ended early" in problems[0]
    assert group.is_given_up
    assert group.look_after() == [] and not group.is_running
    assert not group.stop(1.0) and len(problems) == 1


def test_what_is_killed_while_it_starts_is_started_again(
    group: ServiceGroup, problems: list[str], start: Start
) -> None:
    service = group.add(start(DIES_AT_FIRST), can_go_on=True)
    assert group.wait_ready() == [{}]
    assert service.is_running and group.look_after() == problems == []


@pytest.mark.parametrize(("can_go_on", "starts"), [(True, 2), (False, 1)])
def test_what_is_killed_at_each_start_ends_with_one_line(
    group: ServiceGroup, start: Start, monkeypatch: pytest.MonkeyPatch, can_go_on: bool, starts: int
) -> None:
    monkeypatch.setattr(supervisor, "MOST_IN_A_ROW", 1)
    service = group.add(start(f"import sys; print('starts', file=sys.stderr, flush=True); {DIES}"), can_go_on)
    with pytest.raises(ServiceError) as error:
        group.wait_ready()
    assert str(error.value) == f"made did not start: it was killed by signal 9 (its log is {service.log})"
    assert service.log.read_text() == "starts\n" * starts


def test_what_refuses_to_start_is_not_started_again(group: ServiceGroup, start: Start) -> None:
    service = group.add(start("import sys; sys.exit('chimbuko: the port is taken')"), can_go_on=True)
    with pytest.raises(ServiceError, match="did not start: the port is taken"):
        group.wait_ready()
    assert service.log.read_text().count("taken") == 1


def test_what_nobody_waits_for_may_fail_to_start(
    group: ServiceGroup, problems: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "MOST_IN_A_ROW", 1)
    service = group.add(start(DIES), can_go_on=True, is_starting=True)
    assert group.wait_ready() == []
    service.process.wait()
    assert ["started again" in line for line in group.look_after()] == [True]
    service.process.wait()
    assert group.look_after() == problems and "made ended early; its log is" in problems[0]


def test_what_cannot_go_on_is_reported_once(group: ServiceGroup, problems: list[str], start: Start) -> None:
    service = group.add(start(WAITS))
    kill(service)
    assert len(group.look_after()) == 1 and group.look_after() == []
    assert group.has_failed and len(problems) == 1


def test_what_has_done_its_work_may_end(group: ServiceGroup, problems: list[str], start: Start) -> None:
    service = group.add(start("pass"), may_end=True)
    service.process.wait()
    assert group.look_after() == [] and not group.has_failed
    assert group.stop(1.0) and group.is_empty and problems == []


@pytest.mark.parametrize("can_go_on", [True, False])
def test_what_may_end_goes_on_where_it_was_killed_and_not_where_it_gave_up(
    group: ServiceGroup, problems: list[str], start: Start, can_go_on: bool
) -> None:
    killed = group.add(start(WAITS), can_go_on, may_end=True)
    kill(killed)
    assert (group.is_at_work, group.has_failed) == (can_go_on, not can_go_on)
    (line,) = group.look_after()
    assert ("started again" in line) == can_go_on == killed.is_running
    gave_up = group.add(start("import sys; sys.exit(4)"), can_go_on, may_end=True)
    gave_up.process.wait()
    assert group.has_failed
    assert any("ended early; its log" in line for line in group.look_after())
    kill(killed)


def test_what_does_not_end_is_killed_and_reported(
    group: ServiceGroup, problems: list[str], start: Start
) -> None:
    service = group.add(start(f"import signal; signal.signal({END}, signal.SIG_IGN); {WAITS}"))
    group.wait_ready()
    assert not group.stop(0.1)
    assert not service.is_running and "did not end within" in problems[0]


def test_what_is_not_ready_in_time_is_not_taken_for_one_that_somebody_killed(
    group: ServiceGroup, problems: list[str], start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "READY_TIMEOUT_S", 0.3)
    service = group.add(start("import signal; signal.pause()"), can_go_on=True)
    with pytest.raises(ServiceError, match="made did not start: it said nothing"):
        group.wait_ready()
    first = service.process
    group.stop(5.0)
    # Started again to be ended in order, it would be waited for as long once more, and once more.
    assert service.process is first and problems == []


LIVES_S = st.floats(0.0, 2 * STEADY_S)
"""How long a process lasts."""
SHORT_LIVES_S = st.floats(0.0, LONGEST_PAUSE_S)


FRESH = Revivals()


def lived(lives_s: Iterable[float], revivals: Revivals = FRESH) -> tuple[Revivals, float]:
    """What stands, and the time, after processes that lasted so long were each started again when due."""
    now_s = revivals.last_s
    for life_s in lives_s:
        now_s += life_s
        if not revivals.is_due(now_s):
            now_s = revivals.last_s + pause_s(revivals.in_a_row)
        assert revivals.is_due(now_s)
        revivals = revivals.started(now_s)
    return revivals, now_s


def test_the_first_time_it_is_started_again_at_once() -> None:
    assert FRESH.is_due(0.0) and not FRESH.is_hopeless(0.0)


def test_pauses_double_up_to_the_longest() -> None:
    assert [pause_s(number) for number in range(6)] == [0.0, 1.0, 2.0, 4.0, 4.0, 4.0]


@given(st.lists(LIVES_S, max_size=30), st.floats(0.0, 2 * STEADY_S))
def test_nobody_waits_longer_than_the_longest_pause(lives_s: list[float], later_s: float) -> None:
    revivals, now_s = lived(lives_s)
    assert revivals.is_due(now_s + LONGEST_PAUSE_S + later_s)


@given(st.lists(SHORT_LIVES_S, min_size=MOST_IN_A_ROW, max_size=MOST_IN_A_ROW))
def test_it_is_given_up_only_after_so_many_in_a_row(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s[:-1])
    assert not revivals.is_hopeless(now_s)
    revivals, now_s = lived(lives_s[-1:], revivals)
    assert revivals.is_hopeless(now_s)


@given(st.lists(LIVES_S, max_size=30))
def test_what_has_lasted_begins_anew(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s)
    steady_s = now_s + STEADY_S
    assert revivals.is_due(steady_s) and not revivals.is_hopeless(steady_s)
    assert revivals.started(steady_s).in_a_row == 1


@given(st.lists(st.floats(STEADY_S, 10 * STEADY_S), max_size=100))
def test_what_lasts_each_time_is_never_given_up(lives_s: list[float]) -> None:
    revivals, now_s = lived(lives_s)
    assert not revivals.is_hopeless(now_s)
