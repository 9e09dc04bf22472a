"""Alerts, the events that they learn from, and what is to be done for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from chimbuko.provenance.incidents.standstill import Standstill
from chimbuko.provenance.write.events import StoreEvent


class Alert(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind"):
    """Envelope that all alerts have; each kind adds its own fields."""

    run: str
    """Id of the run."""
    sentence: str
    """Sentence that says what happened; empty if it is not known yet."""
    dashboard: str = ""
    """Address of the page about it, without the token; empty if there is no dashboard."""

    @property
    def about(self) -> str:
        """Return the id of the incident or finding, whose mark counts; empty if there is none, or not yet."""
        return ""


class AgentsSeen(msgspec.Struct, frozen=True):
    """Event: agents were checked for silence."""

    time_s: float
    silent_s: Mapping[str, float]
    """Time since each silent agent was heard last."""


class StandstillsSeen(msgspec.Struct, frozen=True):
    """Event: the store was checked for ranks at a standstill."""

    time_s: float
    found: Sequence[Standstill]


Event = StoreEvent | AgentsSeen | StandstillsSeen


class Send(msgspec.Struct, frozen=True):
    """Instruction to send an alert."""

    alert: Alert
    """Alert without the address of a page."""
    page: str
    """Path of the page about it, within those of the run."""


class LookAtAgents(msgspec.Struct, frozen=True):
    """Instruction to look which agents are silent; ``AgentsSeen`` answers."""


class LookForStandstills(msgspec.Struct, frozen=True):
    """Instruction to look which ranks are at a standstill; ``StandstillsSeen`` answers."""


Instruction = Send | LookAtAgents | LookForStandstills
