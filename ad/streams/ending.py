"""How long the streams of a node are waited for when their run is to end. No clock, no I/O."""

from __future__ import annotations

from dataclasses import dataclass

END_TIMEOUT_S = 10.0
"""How long streams may give nothing after the application has ended, and not end."""
STARVED_END_S = 120.0
"""So long where their readers get no core to go on with."""


@dataclass
class Ending:
    """What the streams of a node have given since the end was asked for.

    It counts ticks, so that an agent that was stopped itself gives nothing up when it goes on.
    """

    asked_s: float = 0.0
    """Since the end was asked for."""
    quiet_s: float = 0.0
    """Since a step came last, without what readers waited for a core."""
    starved_s: float = 0.0
    """The same, with it."""
    drained: int = -1
    """How many steps had come by then."""

    def tick(self, drained: int, own_s: float, tick_s: float) -> None:
        """A tick has passed.

        Parameters
        ----------
        drained
            Steps of all streams that were drained so far.
        own_s
            Time, of that tick, in which the reader could do something that could do the least.
        """
        self.asked_s += tick_s
        if drained != self.drained:
            self.drained, self.quiet_s, self.starved_s = drained, 0.0, 0.0
            return
        self.quiet_s += min(own_s, tick_s)
        self.starved_s += tick_s

    @property
    def is_late(self) -> bool:
        """Whether a program that goes on is not waited for."""
        return self.asked_s > END_TIMEOUT_S

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be expected of streams that are still open."""
        return self.quiet_s > END_TIMEOUT_S or self.starved_s > STARVED_END_S
