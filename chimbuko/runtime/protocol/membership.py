"""Membership of nodes' agents in a run, and when the run shall end, over the broker.

Each agent reports twice a second that it is there, or less often where they are thousands, so a broker that
was started again knows soon, and the agent learns in the same round trip whether the run is to come to an
end.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import cast

import msgspec

from chimbuko.runtime.protocol.runbroker import RunBroker
from chimbuko.runtime.protocol.telemetry import SilentAgents

SILENT_AFTER_S = 8.0
"""Time in seconds after which an agent counts as silent: as it reports three times in it at least, its node,
or the way there, has a problem.
"""
REPORT_S = 0.5
MOST_REPORTS_PER_S = 4_000.0
"""Reports that all agents together make in a second, as far as none counts as silent: they take a third of a
core where they come in over TLS.
"""
LOST_AFTER_S = 60.0
"""Time in seconds after which a silent agent is not waited for."""
GOING_ON, TO_END = b"no", b"yes"


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """Report of an agent about itself."""

    beat: int
    """Number that is different each time."""
    is_done: bool
    problems: list[str]


_answers = msgspec.msgpack.Decoder(Answer)
_silent = msgspec.msgpack.Decoder(SilentAgents)


def silent_agents(broker: RunBroker) -> SilentAgents:
    """Return the agents that the services of many nodes do not hear, as they last reported."""
    return decoded_silent(cast("bytes | None", broker.client.get(broker.keys.silent)))


def decoded_silent(known: bytes | None) -> SilentAgents:
    """Return the agents of a report that the broker has; none where it has no report."""
    return {} if known is None else _silent.decode(known)


class Presence:
    """An agent's end of the membership.

    Parameters
    ----------
    agent
        Name of the agent, unique among all agents of the run.
    """

    def __init__(self, broker: RunBroker, agent: str) -> None:
        self._client, self._keys = broker.client, broker.keys
        self._agent = agent
        self.report_in_s = REPORT_S
        """Time until its next report, in seconds."""

    def say(self, is_done: bool, problems: list[str]) -> bool:
        """Report that the agent is there, or done; return whether the run is to come to an end."""
        answer = msgspec.msgpack.encode(Answer(time.monotonic_ns(), is_done, problems))
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.hset(self._keys.roll_call, self._agent, answer)
            pipeline.get(self._keys.ending)
            pipeline.hlen(self._keys.roll_call)
            _, ending, agents = pipeline.execute()
        self.report_in_s = report_in_s(agents)
        return bool(ending == TO_END)


def report_in_s(agents: int) -> float:
    """Return the time between two reports of one of so many agents, in seconds."""
    return min(max(REPORT_S, agents / MOST_REPORTS_PER_S), SILENT_AFTER_S / 3)


class Membership:
    """The services' end of the membership.

    Parameters
    ----------
    expected
        Agents that are at work, and have not reported yet: their services have died, and these ones continue.
    """

    def __init__(self, broker: RunBroker, expected: Iterable[str] = ()) -> None:
        self._client, self._keys = broker.client, broker.keys
        self._answers = {agent: Answer(0, False, []) for agent in expected}
        self._heard_at = dict.fromkeys(self._answers, time.monotonic())
        self._silent: SilentAgents = {}
        self.is_ending = False
        """Whether the run is to come to an end; set it to make it so."""
        self.is_urgent = False
        """Whether the run may be killed soon; then silent agents are not waited for: their findings are kept.
        """

    def look(self) -> list[str]:
        """Read what the agents report; return one line for each that came, fell silent, is heard again, or is
        done.
        """
        with self._client.pipeline(transaction=False) as pipeline:
            pipeline.set(self._keys.ending, TO_END) if self.is_ending else pipeline.set(
                self._keys.ending, GOING_ON, nx=True
            )
            pipeline.get(self._keys.ending)
            pipeline.hgetall(self._keys.roll_call)
            pipeline.set(self._keys.silent, msgspec.msgpack.encode(self._silent))
            _, ending, answers, _ = pipeline.execute()
        self.is_ending = self.is_ending or ending == TO_END
        lines = [
            line
            for agent, answer in cast(dict[bytes, bytes], answers).items()
            for line in self._heard(agent.decode(), _answers.decode(answer))
        ]
        return lines + self._new_silences()

    def _new_silences(self) -> list[str]:
        now_s = time.monotonic()
        silent_s = {one: now_s - self._heard_at[one] for one in self._at_work if one not in self._silent}
        found = [one for one in silent_s if silent_s[one] > SILENT_AFTER_S]
        self._silent |= {one: time.time_ns() // 1000 - round(1e6 * silent_s[one]) for one in found}
        return [
            f"nothing is heard of {agent} for {SILENT_AFTER_S:.0f} s: is its node there, and the network?"
            for agent in found
        ]

    def _heard(self, agent: str, answer: Answer) -> list[str]:
        before = self._answers.get(agent)
        if before == answer:
            return []
        now_s = time.monotonic()
        silent_s = now_s - self._heard_at.get(agent, now_s)
        self._answers[agent] = answer
        self._heard_at[agent] = now_s
        lines = []
        if self._silent.pop(agent, None) is not None:
            lines.append(
                f"{agent} is heard again, after {silent_s:.0f} s; it delivers what it found meanwhile"
            )
        if before is None or answer.is_done != before.is_done:
            lines.append(f"{agent} is done" if answer.is_done else f"{agent} is at work")
        return lines

    @property
    def done(self) -> list[str]:
        """Agents that have come to their end."""
        return [agent for agent, answer in self._answers.items() if answer.is_done]

    @property
    def lost(self) -> list[str]:
        """Agents that are not done, and have been silent for long."""
        since = time.monotonic() - (SILENT_AFTER_S if self.is_urgent else LOST_AFTER_S)
        return [agent for agent in self._at_work if self._heard_at[agent] < since]

    @property
    def is_over(self) -> bool:
        """Whether the run is to end, and no agent is left to be waited for."""
        return self.is_ending and len(self.lost) == len(self._at_work)

    @property
    def problems(self) -> list[str]:
        """Return one line for each thing that did not end as it should at an agent."""
        reported = [problem for answer in self._answers.values() for problem in answer.problems]
        return reported + [
            f"{agent} did not come to an end, and nothing is heard of it; what it has left is stored as "
            "'chimbuko runs list' says"
            for agent in self.lost
        ]

    @property
    def _at_work(self) -> list[str]:
        return [agent for agent, answer in self._answers.items() if not answer.is_done]


def is_to_end(broker: RunBroker) -> bool:
    """Return whether a run on many nodes is to come to an end."""
    return bool(broker.client.get(broker.keys.ending) == TO_END)


def ask_to_end(broker: RunBroker) -> bool:
    """Ask the services of a run, and all its agents, to come to an end; return False if nobody there
    listens.
    """
    return bool(broker.client.set(broker.keys.ending, TO_END, xx=True))
