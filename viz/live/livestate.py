"""Live state of a run, as all may read it."""

from __future__ import annotations

from dataclasses import dataclass

from chimbuko.runtime.runs.directory import RunInfo
from chimbuko.viz.live.agents import Agents, AgentState
from chimbuko.viz.live.healthhistory import Vital
from chimbuko.viz.live.moment import Moment
from chimbuko.viz.live.status import Status, status
from chimbuko.viz.live.totals import Totals


@dataclass(frozen=True)
class LiveState:
    """Live state of a run after an event. It never changes, so that any thread may read it."""

    info: RunInfo
    """Description of the run, as last read."""
    totals: Totals
    agents: Agents
    vitals: tuple[Vital, ...]
    """History of the analysis' health, as far back as is known."""
    is_last: bool
    """Whether no frame follows."""
    heard_s: float
    """Time when anything new was heard of the run, on the clock of moments."""
    reached_s: float | None
    """Time when the broker was reached last, on the clock of moments; None without a broker."""

    def status(self, at: Moment) -> Status:
        """Return the status of the run, when nothing has happened until then."""
        lost_s = None if self.reached_s is None else at.clock_s - self.reached_s
        silence_s, silent = at.clock_s - self.heard_s, self.agents.silent(at)
        return status(self.totals, self.info, at.epoch_us, silence_s, lost_s, silent, self.is_last)

    def agent_states(self, at: Moment) -> list[AgentState]:
        """Return the resources that each agent takes, as last reported, by name."""
        return self.agents.states(at if self.info.state == "running" else None)
