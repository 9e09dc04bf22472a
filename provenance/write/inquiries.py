"""Questions to agents about delays: who else waited meanwhile, in calls that were not flagged.

Where waits lead to a rank of which nothing is on record, or it is not known for whom they were, agents are
also asked what ranks lost themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nsmallest

from chimbuko.causes.evidence.evidence import LEAST_UNFLAGGED_SHARE, Evidence
from chimbuko.causes.evidence.flag import Flag
from chimbuko.causes.incident import MOST_ASKED, MOST_NEAR, Asked, Incident
from chimbuko.causes.incidents.tracker import ASKED_FROM_US, Changes, asked_about_us
from chimbuko.core.arrays import RankKey
from chimbuko.runtime.protocol.messages import WaitsRequest

LEAST_SHARE = 0.1
"""Least share of the delay, or of the wait for one that is not on record, that a call must have waited."""
WAITS_S = 1.0
"""Time before a delay is asked about: more calls may be flagged yet, and most delays need no question."""
GIVEN_UP_S = 10.0
"""Time after which a question is given up: flight recorders have forgotten the delay."""
RANKS_PER_S = 200.0
"""Most ranks that are asked in a second over all delays, the most costly ones first."""


class Inquiries:
    """Choice of the delays to ask about, each of them once.

    Parameters
    ----------
    evidence
        Calls of the run, as far as they are known.
    """

    def __init__(self, evidence: Evidence) -> None:
        self._scene = evidence
        self._waiting: dict[int, tuple[Incident, float]] = {}
        """Incidents that wait to be asked about, by number, with the time since when."""
        self._asked: dict[int, int] = {}
        """End of each incident that was asked about, by number."""
        self._room = RANKS_PER_S
        self._filled_s = 0.0

    def take(self, changes: Changes, now_s: float) -> None:
        """Take in what has changed in a run's incidents."""
        for number in (*changes.merged, *changes.gone):
            self._waiting.pop(number, None)
        for incident in changes.incidents:
            _, since_s = self._waiting.pop(incident.number, (None, now_s))
            if incident.number not in self._asked and asked_about_us(incident) >= ASKED_FROM_US:
                self._waiting[incident.number] = incident, since_s

    def due(self, now_s: float, is_urgent: bool) -> list[WaitsRequest]:
        """Return what to ask now; ``is_urgent`` where agents may soon be gone."""
        passed_s, self._filled_s = now_s - self._filled_s, now_s
        self._room = min(RANKS_PER_S, self._room + passed_s * RANKS_PER_S)
        ripe = [one for one, since_s in self._waiting.values() if is_urgent or now_s - since_s >= WAITS_S]
        requests = []
        for incident in sorted(ripe, key=asked_about_us, reverse=True):
            request = self._request(incident)
            if request is not None and len(request.ranks) > self._room:
                break
            del self._waiting[incident.number]
            if request is not None:
                self._room -= len(request.ranks)
                self._asked[incident.number] = incident.end_us
                requests.append(request)
        late = [number for number, (_, since_s) in self._waiting.items() if now_s - since_s >= GIVEN_UP_S]
        for number in late:
            del self._waiting[number]
        return requests

    def settle_before(self, time_us: int) -> None:
        """Forget incidents that were over before a time: they do not change any more."""
        self._asked = {number: end_us for number, end_us in self._asked.items() if end_us >= time_us}

    @property
    def is_waiting(self) -> bool:
        """Return whether there is something to ask later."""
        return bool(self._waiting)

    def _request(self, incident: Incident) -> WaitsRequest | None:
        """Return the question about an incident; None if nobody is left to ask."""
        about = self._about(incident)
        if about is None:
            return None
        program, clocks = about.program, self._scene.clocks
        near = about.rank if incident.rank is None else incident.rank
        known = {about.rank, *(one.rank for one in incident.waited)}
        asked = chosen(self._scene.ranks[program] - known, near)
        begin_us, end_us = about.common_from_us, about.common_to_us
        ranks = {
            rank: round(clocks.ahead_us(program, rank, begin_us)) for rank in (*asked.near, *asked.spread)
        }
        least_us = max(LEAST_SHARE * about.excess_us, LEAST_SHARE * ASKED_FROM_US)
        own_us = 0.0 if incident.call_id or incident.is_loss else LEAST_UNFLAGGED_SHARE * about.excess_us
        if not ranks:
            return None
        about_it = program, begin_us, end_us, least_us, ranks, own_us
        return WaitsRequest(*about_it, incident.number, len(asked.near))

    def _about(self, incident: Incident) -> Flag | None:
        """Return the delay, or the longest wait that leads to no other call."""
        if incident.is_loss:
            return self._scene.flags.get(incident.losses[0].id)
        first = next((one.call_id for one in incident.waited if not one.for_call_id), "")
        return self._scene.flags.get(incident.call_id or first)


def chosen(ranks: Collection[int], near: int) -> Asked:
    """Return which of some ranks are asked: those near to one, and others that are spread over the rest.

    Waits for messages are near, and of those at collective operations the others tell the mean.
    """
    beside = nsmallest(MOST_NEAR, ranks, key=lambda rank: abs(rank - near))
    spread = nsmallest(MOST_ASKED - len(beside), set(ranks).difference(beside), key=_scattered)
    return Asked(beside, spread)


def _scattered(rank: int) -> int:
    """Return a place in an order of ranks whose begin is spread over them, at no regular distance."""
    # By the golden ratio: few ranks in the order have the distance of nodes, or of a decomposition.
    return rank * 2_654_435_769 % (1 << 32)


def asked_by(requests: Sequence[WaitsRequest], read: Collection[RankKey] | None = None) -> dict[int, Asked]:
    """Return which ranks are asked about incidents, by number.

    Parameters
    ----------
    read
        Programs and ranks that have answered; None for all.
    """
    found = {}
    for one in requests:
        ranks = list(one.ranks)
        parts = ranks[: one.near], ranks[one.near :]
        found[one.incident] = Asked(
            *([rank for rank in part if read is None or (one.program, rank) in read] for part in parts)
        )
    return found
