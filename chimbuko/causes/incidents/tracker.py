"""Tracker of the incidents of a run, which grow and merge while its calls become known."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager

import msgspec

from chimbuko.causes.evidence.evidence import Evidence
from chimbuko.causes.evidence.flag import Flag, is_loss_id
from chimbuko.causes.incident import LEAST_SAMPLE, MOST_ASKED, Asked, Incident, NodeLoss, Waited
from chimbuko.causes.incidents.grouping import (
    Culprit,
    counts,
    culprit_of,
    groups,
    joined_to,
    leads_to,
    root_of,
)
from chimbuko.causes.incidents.sentence import sentence
from chimbuko.causes.kinds.heldup import STOPPED
from chimbuko.causes.kinds.interpreter import LOOP
from chimbuko.causes.kinds.peers import SLOW_OPERATION
from chimbuko.causes.kinds.registry import IN_NODE
from chimbuko.causes.kinds.rest import NOT_EXPLAINED
from chimbuko.causes.kinds.split import main_part, split
from chimbuko.causes.kinds.work import MORE_BYTES
from chimbuko.causes.part import Part
from chimbuko.core.calls.record import CallRecord
from chimbuko.core.calls.waiting import Waits
from chimbuko.monitor.sampling.nodebatch import NodeBatch

ASKED_FROM_US = 10_000.0
"""Shortest delay that ranks are asked about."""


class Changes(msgspec.Struct, frozen=True):
    """Differences among the incidents since the last time."""

    incidents: list[Incident]
    """New incidents, and those that changed."""
    merged: dict[int, int]
    """Numbers of incidents that are parts of others now, each with the number of the other one."""
    gone: list[int]
    """Numbers of incidents of which no flagged call is left."""
    incident_of: dict[str, int]
    """Numbers of the incidents of calls that belong to another one than before; 0 for none."""
    failed: list[str] = msgspec.field(default_factory=list)
    """Calls that could not be explained, or whose incident could not be told, each with the error: a line for
    each. What goes wrong with one of them costs no other."""


class IncidentTracker:
    """Keeps incidents current as flagged calls come in any order.

    Parameters
    ----------
    first
        Number of the first new incident.
    known
        Numbers of the incidents that a run's calls, and losses, belong to already, by id: these keep them.
    """

    def __init__(self, first: int = 1, known: dict[str, int] | None = None) -> None:
        self.evidence = Evidence()
        self.parts: dict[str, list[Part]] = {}
        """Parts of the excess of each call, by its id."""
        self._next = first
        self.incident_of = dict(known or {})
        """Number of the incident of each call, and of each loss."""
        self._asked: dict[int, Asked] = {}
        """Ranks that were asked about incidents, by number."""
        self._incidents: dict[int, Incident] = {}
        self._members: dict[int, set[str]] = {}
        self._leads: dict[str, str] = {}
        self._changed: list[Flag] = []
        self._taken: dict[Culprit, set[str]] = defaultdict(set)
        """Calls that lost a core to another process, by that."""
        self._alone: set[str] = set()
        """Calls that are not flagged, and lead neither to one that is nor to what such a one waited for."""
        self._failed: list[str] = []

    def put(self, flags: Iterable[Flag]) -> None:
        """Take flagged calls, newer revisions of them, and others that may have to do with them."""
        for flag in map(self.evidence.aligned, flags):
            before = self.evidence.flags.get(flag.id)
            if before is not None and before.is_flagged and not flag.is_flagged:
                continue
            if before != flag:
                self._changed += (flag,) if before is None else (before, flag)
                self.evidence.put(flag)

    def put_samples(self, batch: NodeBatch) -> None:
        """Take samples of a node, which may explain calls."""
        self._changed += self.evidence.put_samples(batch)

    def put_communication(self, record: CallRecord) -> None:
        """Take the messages and collective operations of a recorded call, abnormal or not."""
        self.evidence.ranks[record.program].add(record.rank)
        self.evidence.communication.put(record)

    def note_asked(self, asked: Mapping[int, Asked]) -> None:
        """Take which ranks were asked about incidents, by number: who of them says nothing has not waited."""
        self._asked |= asked
        for number in asked:
            self._changed += [self.evidence.flags[one] for one in sorted(self._members.get(number, ()))[:1]]

    def forget_before(self, time_us: int) -> None:
        """Let go of incidents that were over by then; they stay as they were reported last."""
        self.evidence.nodes.forget_before(time_us)
        over = [number for number, one in self._incidents.items() if one.end_us < time_us]
        for number in over:
            del self._incidents[number]
            self._asked.pop(number, None)
            for call_id in self._members.pop(number):
                self._let_go(call_id)
        for call_id in [one for one in self._alone if self.evidence.flags[one].exit_us < time_us]:
            self._let_go(call_id)

    def update(self) -> Changes:
        """Return the changes by what came since the last time."""
        if self.evidence.clocks.update():
            self.put(list(self.evidence.flags.values()))
        flags = self.evidence.flags
        concerned = self._concerned()
        for call_id in concerned:
            self.parts[call_id] = [Part(NOT_EXPLAINED.id, flags[call_id].excess_us)]
            with self._sparing_others(call_id):
                self.parts[call_id] = split(flags[call_id], self.evidence)
        for call_id in concerned:
            self._leads[call_id] = ""
            with self._sparing_others(call_id):
                self._leads[call_id] = self._lead(flags[call_id])
        touched = self._touched(concerned | self._taken_by_same(concerned))
        for flag in self._changed:
            if flag.id not in flags:
                self._forget(flag.id)
        self._changed.clear()
        calls = concerned.union(*(self._members.pop(number, set()) for number in touched))
        calls |= self._following(concerned)
        present = {call_id: flags[call_id] for call_id in sorted(calls) if call_id in flags}
        members = groups(present, self._leads, self.parts)
        self._alone = (self._alone | present.keys()).difference(*members.values())
        return self._regrouped(touched, members)

    def incident(self, call_id: str) -> Incident | None:
        """Return the incident that a call belongs to; None if it is not known, or forgotten."""
        return self._incidents.get(self.incident_of.get(call_id, 0))

    @contextmanager
    def _sparing_others(self, call_id: str) -> Iterator[None]:
        """Note what goes wrong with a call, or with the incident that began with it: it costs no other."""
        try:
            yield
        except Exception as error:
            self._failed.append(f"{call_id}: {type(error).__name__}: {error}")

    def _lead(self, flag: Flag) -> str:
        """Return the call or loss that a call is part of, or that explains most of it; empty without one."""
        joined = joined_to(flag, self.evidence.beside(flag), self.parts)
        return joined or leads_to(flag, self.parts[flag.id], self.evidence.flags)

    def _taken_by_same(self, concerned: set[str]) -> set[str]:
        """Return other calls whose core was taken by the same processes."""
        same: set[str] = set()
        for call_id in concerned:
            culprit = culprit_of(self.evidence.flags[call_id], self.parts[call_id])
            if culprit is not None:
                self._taken[culprit].add(call_id)
                same |= self._taken[culprit]
        return same & self.evidence.flags.keys() & self._leads.keys()

    def _following(self, concerned: set[str]) -> set[str]:
        """Return calls of no incident that lead to one of these which may be the end of a chain now."""
        ends = {one for one in concerned if not counts(self.evidence.flags[one], self.parts[one])}
        alone = self._alone if ends else ()
        return {one for one in alone if root_of(one, self._leads, self.evidence.flags) in ends}

    def _let_go(self, call_id: str) -> None:
        self.evidence.remove(call_id)
        self._forget(call_id)

    def _forget(self, call_id: str) -> None:
        self._alone.discard(call_id)
        for calls in self._taken.values():
            calls.discard(call_id)
        for of_call in (self.parts, self._leads, self.incident_of):
            of_call.pop(call_id, None)

    def _regrouped(self, touched: set[int], members: dict[str, list[str]]) -> Changes:
        numbers, merged = self._numbered(members)
        before = {number: self._incidents.pop(number, None) for number in touched}
        incidents: dict[int, Incident] = {}
        for root, of_root in list(members.items()):
            with self._sparing_others(root):
                told = self._told(numbers[root], root, of_root)
                # A loss that lies in calls of other incidents is told with these.
                if told.cost_us > 0 or not told.is_loss:
                    incidents[numbers[root]] = told
                    continue
            self._alone |= set(members.pop(root))
        merged = {number: into for number, into in merged.items() if into in incidents}
        for number in merged:
            self._asked.pop(number, None)
        left = {call_id: 0 for call_id in self._alone if call_id in self.incident_of}
        incident_of = {call_id: numbers[root] for root, of_root in members.items() for call_id in of_root}
        changes = Changes(
            [one for number, one in incidents.items() if before.get(number) != one],
            merged,
            [n for n, one in before.items() if one is not None and n not in incidents and n not in merged],
            {
                call_id: number
                for call_id, number in (left | incident_of).items()
                if self.incident_of.get(call_id) != number and not is_loss_id(call_id)
            },
            self._failed,
        )
        self._failed = []
        self._incidents.update(incidents)
        self._members |= {numbers[root]: set(of_root) for root, of_root in members.items()}
        self.incident_of.update(incident_of)
        for call_id in left:
            del self.incident_of[call_id]
        return changes

    def _touched(self, concerned: set[str]) -> set[int]:
        """Return the incidents that may change: those of the calls, and of what they lead to."""
        calls = concerned | {self._leads[call_id] for call_id in concerned}
        calls |= {flag.id for flag in self._changed}
        return {self.incident_of[call_id] for call_id in calls if call_id in self.incident_of}

    def _concerned(self) -> set[str]:
        """Return the calls whose explanation may have changed."""
        stretches: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for flag in self._changed:
            stretches[flag.program].append((flag.common_entry_us, flag.common_exit_us))
        return {
            flag.id
            for program, times in stretches.items()
            for begin_us, end_us in _joined(times)
            for flag in self.evidence.during(program, begin_us, end_us)
        }

    def _numbered(self, members: dict[str, list[str]]) -> tuple[dict[str, int], dict[int, int]]:
        """Return the number of each group, and those incidents that have become part of another one."""
        shares: dict[int, Counter[str]] = defaultdict(Counter)
        for root, of_root in members.items():
            for call_id in of_root:
                if call_id in self.incident_of:
                    shares[self.incident_of[call_id]][root] += 1
        # Of an incident that falls apart the largest part keeps the number.
        kept: dict[str, list[int]] = defaultdict(list)
        for number, of_groups in shares.items():
            kept[max(of_groups, key=lambda root: (of_groups[root], root))].append(number)
        numbers: dict[str, int] = {}
        merged: dict[int, int] = {}
        in_time = sorted(members, key=lambda root: (self.evidence.flags[root].entry_us, root))
        for root in in_time:
            if root not in kept:
                numbers[root] = self._next
                self._next += 1
                continue
            numbers[root] = min(kept[root])
            merged |= {number: numbers[root] for number in kept[root] if number != numbers[root]}
        return numbers, merged

    def _told(self, number: int, root: str, members: list[str]) -> Incident:
        """Return an incident of which there is a sentence."""
        incident = self._with_others(self._incident(number, root, members), members)
        sentence(incident)
        return incident

    def _with_others(self, incident: Incident, members: Iterable[str]) -> Incident:
        """Return an incident with what ranks lost that nobody asked, or with that this is not known."""
        asked, flags = incident.asked, [self.evidence.flags[one] for one in members]
        ranks = self.evidence.ranks[incident.program]
        known = {flag.rank for flag in flags if flag.loss is None}
        left = len(ranks - known.union(asked.near, asked.spread))
        # Of few ranks all are asked, and of a short delay none.
        is_small = not asked.near and len(ranks) <= MOST_ASKED + len(known)
        if not left or is_small or asked_about_us(incident) < ASKED_FROM_US:
            return incident
        if len(asked.spread) < LEAST_SAMPLE:
            return msgspec.structs.replace(incident, is_partial=True)
        spread = set(asked.spread)
        waited = [flag for flag in self._costly(flags) if flag.rank in spread]
        estimated_us = left * sum(flag.excess_us for flag in waited) / len(spread)
        return msgspec.structs.replace(
            incident,
            cost_us=incident.cost_us + estimated_us,
            estimated_us=estimated_us,
            estimated_ranks=round(left * len({flag.rank for flag in waited}) / len(spread)),
            of_ranks=len(ranks),
        )

    def _incident(self, number: int, root: str, members: list[str]) -> Incident:
        flags = [self.evidence.flags[call_id] for call_id in members]
        origin = self.evidence.flags[root]
        parts = self.parts[root]
        main = main_part(parts)
        is_known = not origin.is_wait or main.kind in IN_NODE or main.kind == MORE_BYTES.id
        calls = [flag for flag in flags if flag.loss is None]
        waited = [self._waited(flag) for flag in calls if not (is_known and flag.id == root)]
        losses = [self._loss(flag, calls) for flag in flags if flag.loss is not None]
        stopped = {flag.rank for flag in flags if main_part(self.parts[flag.id]).kind == STOPPED.id}
        return Incident(
            number=number,
            program=origin.program,
            kind=main.kind,
            rank=origin.rank if is_known else self._awaited(flags),
            function=origin.function if is_known else "",
            call_id=root if is_known and origin.loss is None else "",
            node=origin.node if is_known else "",
            entry_us=origin.entry_us,
            exit_us=origin.exit_us,
            runtime_us=origin.judged_us if is_known and origin.loss is None else 0.0,
            expected_us=origin.expected_us if is_known else 0.0,
            excess_us=origin.excess_us if is_known else 0.0,
            is_whole=not (origin.is_exclusive and origin.calls_made),
            begin_us=min(flag.entry_us for flag in flags),
            end_us=max(flag.exit_us for flag in flags),
            cost_us=self._cost_us(flags) + sum(loss.beyond_us for loss in losses),
            parts=[
                msgspec.structs.replace(part, call_id="") if is_loss_id(part.call_id) else part
                for part in parts
            ],
            waited=sorted(waited, key=lambda one: (-one.lost_us, one.call_id)),
            is_flagged=origin.is_flagged,
            losses=sorted(losses, key=lambda one: (one.id != root, one.begin_us, one.id)),
            thread=origin.thread if is_known else 0,
            asked=self._asked.get(number, Asked()),
            between=list(origin.between) if is_known else [],
            is_of_all=len(stopped) > 1 and stopped == self.evidence.ranks[origin.program],
        )

    def _cost_us(self, flags: Collection[Flag]) -> float:
        """Return the core time that the calls among these lost."""
        own_us, of_loops = 0.0, defaultdict[int, float](float)
        for flag in self._costly(flags):
            # Tasks that wait for their event loop have one thread together.
            if main_part(self.parts[flag.id]).kind == LOOP.id:
                of_loops[flag.rank] = max(of_loops[flag.rank], flag.excess_us)
            else:
                own_us += flag.excess_us
        return own_us + sum(of_loops.values())

    def _costly(self, flags: Collection[Flag]) -> list[Flag]:
        """Return the calls of an incident whose excess is in that of no other."""
        # While a process waits for its GPU only a core of it is lost.
        hosts = {flag.rank for flag in flags if not flag.is_gpu}
        calls = [flag for flag in flags if flag.loss is None]
        return [one for one in calls if not (self._is_counted(one) or (one.is_gpu and one.rank in hosts))]

    def _loss(self, loss: Flag, calls: Iterable[Flag]) -> NodeLoss:
        """Return what a rank lost, of which some is the excess of calls: those of the same incident, and
        flagged ones of others.
        """
        own = {flag.id for flag in calls}
        in_calls_us = sum(
            min(flag.excess_us, flag.overlap_us(loss))
            for flag in self.evidence.beside(loss)
            if flag.loss is None and (flag.is_flagged or flag.id in own) and not self._is_counted(flag)
        )
        beyond_us = max(0.0, loss.excess_us - in_calls_us)
        return NodeLoss(loss.id, loss.rank, loss.entry_us, loss.exit_us, loss.excess_us, beyond_us)

    def _awaited(self, flags: list[Flag]) -> int | None:
        """Return the one rank that calls waited for that lead nowhere; None if it is not known."""
        waiting = {flag.rank for flag in flags}
        parts = (part for flag in flags for part in self.parts[flag.id])
        named = {part.rank for part in parts if part.rank is not None} - waiting
        if not named and all(flag.waits is Waits.COLLECTIVE for flag in flags):
            named = self.evidence.ranks[flags[0].program] - waiting
        return named.pop() if len(named) == 1 else None

    def _waited(self, flag: Flag) -> Waited:
        return Waited(
            flag.id,
            flag.rank,
            flag.operation,
            flag.excess_us,
            flag.entry_us,
            flag.exit_us,
            "" if is_loss_id(self._leads[flag.id]) else self._leads[flag.id],
            main_part(self.parts[flag.id]).kind,
            flag.is_flagged,
            flag.thread,
        )

    def _is_counted(self, flag: Flag) -> bool:
        """Whether a call around this one contains its excess in its own."""
        around = (self.evidence.flags.get(call_id) for call_id, _ in flag.ancestors)
        return any(one is not None and not one.is_exclusive for one in around)


def asked_about_us(incident: Incident) -> float:
    """Return the lost time by which an incident is asked about; 0 if no rank came late."""
    if incident.call_id or incident.is_loss:
        return incident.excess_us
    return 0.0 if incident.kind == SLOW_OPERATION.id else max(one.lost_us for one in incident.waited)


def _joined(times: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return intervals, those that overlap as one."""
    joined: list[tuple[int, int]] = []
    for begin_us, end_us in sorted(times):
        if joined and begin_us <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end_us)
        else:
            joined.append((begin_us, end_us))
    return joined
