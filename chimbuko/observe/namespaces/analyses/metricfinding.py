"""Findings: something that is wrong with a quantity that a program publishes."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from chimbuko.core.units import format_change


class Problem(StrEnum):
    """Kind of problem that a finding reports."""

    GLOBAL_DRIFT = "global drift"
    """Drift of the sum over all ranks, where no rank stands out: a parameter of the whole program is wrong.
    """
    LOCAL_DRIFT = "local drift"
    """Drift of the sum over all ranks that comes from few ranks."""
    DEPARTURE = "departure"
    """Departure of one rank from the others."""
    NOT_A_NUMBER = "not a number"


FindingKey = tuple[str, str, tuple[int, ...]]
"""Identity of a finding within a run: problem, quantity and ranks."""


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong with a quantity; it is reported once."""

    kind: Problem
    quantity: str
    ranks: tuple[int, ...]
    """Ranks that stand out; empty if all ranks are alike."""
    since: int
    """Step of the program at which the problem began, as far as can be said."""
    step: int
    """Step of the program at which the problem was found."""
    change: float
    """Size of the deviation when it was found: of a drift relative to the sum, of a departure in standard
    deviations.
    """
    begin_us: int = 0
    """Time at which the first wrong step was published, in µs since the epoch; 0 if that is not known."""
    found_us: int = 0
    """Time at which the step ``step`` was published, in µs since the epoch; 0 if that is not known."""

    @property
    def key(self) -> FindingKey:
        """Identity of the finding within its run."""
        return self.kind.value, self.quantity, self.ranks

    @property
    def sentence(self) -> str:
        """Return the finding as a sentence."""
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
    """All findings of a run until now, as the process that watches the run publishes them for the store."""

    found: tuple[Finding, ...]
