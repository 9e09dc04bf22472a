"""What one simulated agent asks of the broker once per period, as ``chimbuko.ad.modelsync`` does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Any

import msgspec
import numpy as np

from benchmarks.server.agents import RealAgent, SimulatedAgent
from benchmarks.server.services import KEYS, SEAL
from benchmarks.server.wire import Requests, command
from chimbuko.core.statistics.schema import PackedTable
from chimbuko.runtime.protocol.messages import Acknowledgement, FunctionName, ModelUpdate

READ_COUNT = b"100"

_acknowledgements = msgspec.msgpack.Decoder(Acknowledgement)
_updates = msgspec.msgpack.Decoder(ModelUpdate)
_names = msgspec.msgpack.Decoder(FunctionName)
_rows = msgspec.msgpack.Decoder(PackedTable)

Asking = Generator[float | Requests, list[Any], None]


class Link(ABC):
    """Hears acknowledgements and updates of the model for one agent."""

    def __init__(self, agent: SimulatedAgent) -> None:
        self.agent = agent
        self.merged = 0
        """Last delta that the agent knows is merged."""
        self.row_bytes = 0
        """Size of all rows that were fetched."""
        self._ask_acknowledgement = command(b"HGET", KEYS.part(0).acks.encode(), agent.name.encode())
        self._read_to = b"0"

    @property
    def may_send(self) -> bool:
        """Whether the last delta is merged."""
        return self.merged >= self.agent.sequence

    def receive(self) -> Asking:
        """Ask for acknowledgements and updates, and fetch what follows from them."""
        words = b"XREAD", b"COUNT", READ_COUNT, b"STREAMS", KEYS.part(0).model_updates.encode(), self._read_to
        acknowledged, streams = yield Requests(self._ask_acknowledgement + command(*words), 2)
        if acknowledged is not None:
            self.merged = _acknowledgements.decode(acknowledged).merged
        entries = [entry for _, entries in streams or [] for entry in entries]
        if entries:
            self._read_to = entries[-1][0]
        yield from self._take_over([SEAL.decode(fields[1], _updates) for _, fields in entries])

    @abstractmethod
    def _take_over(self, updates: Sequence[ModelUpdate]) -> Asking:
        """Fetch the rows that changed and are used."""


class RealLink(Link):
    """Gives the agent what it hears."""

    def __init__(self, agent: RealAgent, directory: Directory) -> None:
        super().__init__(agent)
        self._statistics = agent.statistics
        self._directory = directory

    def _take_over(self, updates: Sequence[ModelUpdate]) -> Asking:
        model = self._statistics.model
        for update in updates:
            is_new = model.is_of_another_server(0, update)
            known = 0 if is_new else model.known_functions(0)
            if update.functions > known or is_new:
                (encoded,) = yield Requests(_names_after(known))
                names = [_names.decode(name) for name in encoded]
                model.learn_functions(0, update.server, names)
                self._directory.learn(names)
        wanted = model.wanted(0, updates)
        rows: dict[int, PackedTable | None] = {}
        if wanted:
            (answers,) = yield Requests(_rows_of(wanted))
            self.row_bytes += sum(map(len, filter(None, answers)))
            rows = {
                number: None if row is None else _rows.decode(row)
                for number, row in zip(wanted, answers, strict=True)
            }
        model.apply(0, updates, rows)


class FollowerLink(Link):
    """Fetches what a real agent would, and does not look into it."""

    def __init__(self, agent: SimulatedAgent, directory: Directory) -> None:
        super().__init__(agent)
        self._directory = directory
        self._known = 0
        self._version = 0
        self._has_rows = False

    def _take_over(self, updates: Sequence[ModelUpdate]) -> Asking:
        functions = max((update.functions for update in updates), default=0)
        if functions > self._known:
            yield Requests(_names_after(self._known), is_opaque=True)
            self._known = functions
        used = self._directory.numbers(self.agent.program)
        has_missed = bool(updates) and updates[0].version != self._version + 1
        if self._has_rows and not has_missed:
            used = used & self._directory.changed(updates)
        if used:
            (size,) = yield Requests(_rows_of(used), is_opaque=True)
            self.row_bytes += size
            self._has_rows = True
        if updates:
            self._version = updates[-1].version


class Directory:
    """Numbers of functions, by program, and what updates say of them; decoded once for all followers."""

    def __init__(self) -> None:
        self._numbers: dict[int, set[int]] = {}
        self._changed: dict[int, set[int]] = {}

    def learn(self, names: Sequence[FunctionName]) -> None:
        """Names as an agent learned them."""
        for name in names:
            self._numbers.setdefault(name.program, set()).add(name.number)

    def numbers(self, program: int) -> set[int]:
        """All functions of a program that are known."""
        return self._numbers.get(program, set())

    def changed(self, updates: Sequence[ModelUpdate]) -> set[int]:
        """Functions that have a new row."""
        for update in updates:
            if update.version not in self._changed:
                self._changed[update.version] = set(np.frombuffer(update.numbers, np.int32).tolist())
        return set().union(*(self._changed[update.version] for update in updates))


def _names_after(known: int) -> bytes:
    return command(b"LRANGE", KEYS.part(0).functions.encode(), b"%d" % known, b"-1")


def _rows_of(numbers: Sequence[int] | set[int]) -> bytes:
    return command(b"HMGET", KEYS.part(0).model.encode(), *(b"%d" % number for number in sorted(numbers)))
