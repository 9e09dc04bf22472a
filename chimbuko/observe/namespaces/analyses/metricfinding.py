"""What is wrong with a quantity that a program publishes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from chimbuko.core.units import format_change


class Problem(StrEnum):
    """What a finding is about."""

    GLOBAL_DRIFT = "global drift"
    """The sum over all ranks is not conserved, and no rank stands out: a parameter of the whole is wrong."""
    LOCAL_DRIFT = "local drift"
    """The sum is not conserved because of few ranks."""
    DEPARTURE = "departure"
    """A rank departs from the others."""
    NOT_A_NUMBER = "not a number"


FindingKey = tuple[str, str, tuple[int, ...]]
"""Problem, quantity and ranks: of one such finding a run has one."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong; it is found once."""

    kind: Problem
    quantity: str
    ranks: tuple[int, ...]
    """Those that stand out; none where all are alike."""
    since: int
    """Step of the program at which it began, as far as can be said."""
    step: int
    """At which it was found."""
    change: float
    """How far it had come then: of a drift relative to the sum, of a departure in standard deviations."""
    begin_us: int = 0
    """When the step at which it began was published, in µs since the epoch; 0 where that is not known."""
    found_us: int = 0
    """The same of the step at which it was found."""

    @property
    def key(self) -> FindingKey:
        """What distinguishes it from others of a run."""
        return self.kind.value, self.quantity, self.ranks

    @property
    def sentence(self) -> str:
        """All of it in words."""
        changed = f"the sum has changed by {format_change(self.change, '.3g')}"
        who = f"rank {', '.join(map(str, self.ranks))}" if self.ranks else "all ranks"
        match self.kind:
            case Problem.NOT_A_NUMBER:
                return f"{self.quantity} is not a number on {who}, at step {self.step:,}."
            case Problem.DEPARTURE:
                what = f"departs from the other ranks on {who}: by {abs(self.change):.1f} standard deviations"
            case Problem.LOCAL_DRIFT:
                what = f"is not conserved because of {who}: {changed}"
            case Problem.GLOBAL_DRIFT:
                what = f"is not conserved, alike on {who}: {changed}"
        return f"{self.quantity} {what}, since about step {self.since:,}."


class Findings(msgspec.Struct, frozen=True):
    """All that was found in a run until now, as whoever watches it publishes it for the store."""

    found: tuple[Finding, ...]
