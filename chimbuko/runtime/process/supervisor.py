"""Supervision of several of our processes together: those that end early are started again, and all are
ended.

``Revivals`` decides, without a clock, when a process is started again.
"""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from typing import Any

import msgspec

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.failures import Failures
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.process.service import READY_TIMEOUT_S, Service
from chimbuko.runtime.process.signals import END

MOST_IN_A_ROW = 10
STEADY_S = 60.0
"""Time in seconds after which a process that was started again counts as steady: its next start comes without
a pause.
"""
LONGEST_PAUSE_S = 4.0


class Revivals(msgspec.Struct, frozen=True):
    """Starts of a process so far: how often, and when it was last started again. Times are those of any clock
    that never goes back.

    A process that ends soon after its start may end because of its surroundings, as where it finds no memory:
    beside the application it is started again after pauses, each twice as long as the one before.
    """

    in_a_row: int = 0
    """Number of starts one after the other that did not last."""
    last_s: float = 0.0

    def is_due(self, now_s: float) -> bool:
        """Return whether the process may be started again by now, where it is not running."""
        return now_s >= self.last_s + pause_s(self._in_a_row_at(now_s))

    def is_hopeless(self, now_s: float) -> bool:
        """Return whether it ended so often soon after its start that another one would, too."""
        return self._in_a_row_at(now_s) >= MOST_IN_A_ROW

    def started(self, now_s: float) -> Revivals:
        """Return the state after it was started again."""
        return Revivals(self._in_a_row_at(now_s) + 1, now_s)

    def _in_a_row_at(self, now_s: float) -> int:
        return self.in_a_row if now_s < self.last_s + STEADY_S else 0


def pause_s(in_a_row: int) -> float:
    """Return the time from the last start until the process may be started again: at first none, then 1, 2, 4
    s.
    """
    return min(0.5 * (1 << in_a_row), LONGEST_PAUSE_S) if in_a_row else 0.0


_LOOK_S = 0.05


class _Member(msgspec.Struct):
    service: Service
    can_go_on: bool
    """Whether the process continues its work when it is started anew."""
    may_end: bool
    """Whether the process may end by itself: it has done its work, with code 0, or cannot do it."""
    is_starting: bool
    """Whether it is started, and nobody has heard yet that it is ready."""
    is_given_up: bool = False
    revivals: Revivals = msgspec.field(default_factory=Revivals)

    @property
    def is_hopeless(self) -> bool:
        """Whether, once it has ended, it is not started again."""
        if not self.can_go_on or self.is_given_up:
            return True
        cannot = self.may_end and (self.service.process.poll() or 0) > 0
        return cannot or self.revivals.is_hopeless(time.monotonic())

    @property
    def is_at_work(self) -> bool:
        """Whether it is running, or is going to again."""
        has_done_it = self.may_end and self.service.process.poll() == 0
        return self.service.is_running or not (has_done_it or self.is_hopeless)

    def start_again(self) -> None:
        """Start the process anew."""
        self.service.start_again()
        self.revivals = self.revivals.started(time.monotonic())
        self.is_starting = True


class ServiceGroup:
    """Group of the services of one part of a run.

    Parameters
    ----------
    problems
        List that gets one line for each problem.
    """

    def __init__(self, problems: list[str]) -> None:
        self._problems = problems
        self._failures = Failures(problems)
        self._members: list[_Member] = []

    def add(
        self, service: Service, can_go_on: bool = False, may_end: bool = False, is_starting: bool = False
    ) -> Service:
        """Add a service to be looked after; ``is_starting`` where nobody is going to wait for it."""
        self._members.append(_Member(service, can_go_on, may_end, is_starting))
        return service

    @property
    def is_empty(self) -> bool:
        """Whether the group has no services, or none any more."""
        return not self._members

    @property
    def is_running(self) -> bool:
        """Whether any of the services is running."""
        return any(member.service.is_running for member in self._members)

    @property
    def is_at_work(self) -> bool:
        """Whether any process is running, or is going to be started again."""
        return any(member.is_at_work for member in self._members)

    @property
    def has_failed(self) -> bool:
        """Whether one ended with another code than 0, and is not started again."""
        return any(member.service.process.poll() and member.is_hopeless for member in self._members)

    @property
    def is_given_up(self) -> bool:
        """Whether all processes have ended and none is started again."""
        return not self.is_empty and all(member.is_given_up for member in self._members)

    def look_after(self) -> list[str]:
        """Start again those that ended on their own and can continue; return one line for each problem."""
        lines = []
        for member in self._members:
            with self._failures.survived(f"{member.service.name} ended and cannot be started again yet"):
                lines += self._revive(member)
        return lines

    def _revive(self, member: _Member) -> list[str]:
        service = member.service
        if service.is_running or member.is_given_up:
            return []
        if member.may_end and service.process.returncode == 0:
            return []
        if member.is_hopeless:
            member.is_given_up = True
            self._problems.append(f"{service.name} ended early; its log is {service.log}")
            return self._problems[-1:]
        if not member.revivals.is_due(time.monotonic()):
            return []
        member.start_again()
        return [_started_again(service)]

    def wait_ready(self) -> list[dict[str, Any]]:
        """Wait until all services are ready that were not added as starting; return the facts that each
        reports.

        Raises
        ------
        ServiceError
            One did not start, or was killed again and again while it did.
        """
        return [self._wait_ready(member) for member in self._members if not member.is_starting]

    def _wait_ready(self, member: _Member) -> dict[str, Any]:
        latest_s = time.monotonic() + READY_TIMEOUT_S
        while True:
            try:
                facts = member.service.wait_ready(max(0.0, latest_s - time.monotonic()))
            except ServiceError:
                if time.monotonic() >= latest_s or not self._was_killed(member):
                    # Otherwise it would count as killed by somebody, and be started again.
                    member.is_given_up = True
                    raise
            else:
                member.is_starting = False
                return facts
            while not member.revivals.is_due(time.monotonic()):
                time.sleep(_LOOK_S)
            member.start_again()
            log(_started_again(member.service))

    def ask_to_stop(self) -> None:
        """Ask all processes to finish their work, and end."""
        for member in self._members:
            with self._failures.survived(f"{member.service.name} could not be asked to end"):
                self._ask_to_stop(member)

    def warn(self) -> None:
        """Warn them that time may be short: they go on, and end when they are asked to."""
        for member in self._members:
            if not member.is_starting and member.service.is_running:
                member.service.process.send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float) -> bool:
        """Stop them one after the other, each within ``timeout_s`` seconds; return whether all ended with
        code 0.
        """
        codes = []
        for member in self._members:
            with self._failures.survived(f"{member.service.name} could not be ended in order"):
                codes.append(self._stop(member, timeout_s))
        is_whole = codes == [0] * len(self._members)
        self._members.clear()
        return is_whole

    def _stop(self, member: _Member, timeout_s: float) -> int:
        service = member.service
        self._ask_to_stop(member)
        is_in_time = service.stop(timeout_s)
        if is_in_time and self._was_killed(member):
            member.start_again()
            return self._stop(member, timeout_s)
        code: int = service.process.returncode
        if not is_in_time:
            self._problems.append(f"{service.name} did not end within {timeout_s:.0f} s and was killed")
        elif code not in (0, -END) and not member.is_given_up:
            self._problems.append(f"{service.name} ended with code {code}; its log is {service.log}")
        return code

    def _ask_to_stop(self, member: _Member) -> None:
        if member.is_starting:
            # Before it is ready it would end at once, and leave its work undone.
            member.is_starting = False
            with suppress(ServiceError):
                member.service.wait_ready()
        member.service.ask_to_stop()

    def _was_killed(self, member: _Member) -> bool:
        """Return whether a service did not mean to end, and another one can continue."""
        code: int = member.service.process.returncode
        return code < 0 and code != -END and not member.is_hopeless


def _started_again(service: Service) -> str:
    return f"{service.name} ended early and was started again; its log is {service.log}"
