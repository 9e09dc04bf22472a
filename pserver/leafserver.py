"""A leaf server: between some agents and the parameter server, whose load it lightens."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import redis
from redis.cluster import RedisCluster

from chimbuko.core.arrays import distinct
from chimbuko.core.errors import ServiceError
from chimbuko.core.files import write_atomically
from chimbuko.core.statistics.schema import TableSchema
from chimbuko.pserver.server import KEPT_UPDATES, MOST_ACKNOWLEDGED
from chimbuko.pserver.state.leafstate import LeafState, NamedFunctions
from chimbuko.pserver.state.modelversions import pause_s
from chimbuko.runtime.process.lifetime import log
from chimbuko.runtime.protocol.messages import PAYLOAD, Acknowledgement, Delta, ModelUpdate
from chimbuko.runtime.protocol.partition import leaf_of_agent
from chimbuko.runtime.protocol.runbroker import PartKeys, RunBroker

ROUND_S = 0.1
"""Minimum time between two deltas to the parameter server: of 250 agents that speak every three seconds each
contains eight."""
MOST_UNDERWAY = 4
"""Most deltas that the parameter server has not merged; what comes meanwhile goes into the next one."""
RESEND_S = 5.0
"""Time after which a delta that is not merged is sent again."""
RETRY_S = 0.2
READ_COUNT = 1000

_deltas = msgspec.msgpack.Decoder(Delta)
_updates = msgspec.msgpack.Decoder(ModelUpdate)
_acknowledgements = msgspec.msgpack.Decoder(Acknowledgement)
_encode = msgspec.msgpack.Encoder().encode


class LeafPlace(msgspec.Struct, frozen=True):
    """Place of one leaf server among several."""

    number: int
    """Number of this one, counted from 1."""
    leaves: int
    parts: int
    """Number of parts of the parameter server."""
    names: tuple[Path, ...]
    """Files in which the names that agents gave their functions are kept; all are alike, and on storage of
    which some may be lost.
    """


class _LeafPart:
    """Part of a leaf server: it serves one part of the parameter server.

    Parameters
    ----------
    up, down
        Keys of the part, and of the leaf for it.
    """

    def __init__(self, broker: RunBroker, state: LeafState, up: PartKeys, down: PartKeys) -> None:
        self._broker = broker
        self._client = broker.client
        self.state = state
        self._up = up
        self._down = down
        self._read_to = b"0"
        self._updates_to = b"0"
        self._functions = 0
        """Number of functions whose names agents have."""
        self._model: tuple[int, int] | None = None
        """Server and version of the model that agents have."""
        self._sent_s = 0.0
        self._is_known = False
        """Whether the parameter server has heard of this leaf server."""
        self._model_at_s = 0.0
        """Time before which agents fetch what they were told last of the model."""
        self.is_lost = False
        """Whether another parameter server has taken over, which may know less than the one before."""

    def merge(self, wait_s: float) -> int:
        """Merge what agents have sent, or send within a time; return the number of deltas."""
        block_ms = max(round(1000 * wait_s), 1) if wait_s > 0.0 else None
        entries = self._broker.read(self._down.deltas, self._read_to, READ_COUNT, block_ms)
        for entry, payload in entries:
            self._read_to = entry
            try:
                self.state.apply(self._broker.seal.decode(payload, _deltas))
            except (ValueError, msgspec.MsgspecError) as error:
                log(f"delta {entry.decode()} is left out: {error}")
        return len(entries)

    def send(self, now_s: float) -> None:
        """Send what is merged, and what was sent before and may be lost."""
        if self.state.underway and now_s - self._sent_s > RESEND_S:
            self._put(self.state.unmerged(), now_s)
        if self.state.underway < MOST_UNDERWAY and (delta := self.state.next_delta()) is not None:
            self._put([delta], now_s)
            # Agents send again what the parameter server has not saved.
            self._client.xtrim(self._down.deltas, minid=self._read_to.decode(), approximate=False)

    def greet(self, now_s: float) -> bool:
        """Return whether the parameter server has heard of this leaf server; let it hear where it has not."""
        if self._is_known:
            return True
        if not self.state.underway:
            self._put([self.state.greeting()], now_s)
        elif now_s - self._sent_s > RESEND_S:
            self._put(self.state.unmerged(), now_s)
        self._acknowledged(self._answer())
        self._is_known = not self.state.underway
        return self._is_known

    def acknowledged_before(self) -> dict[str, Acknowledgement]:
        """Return how far the parameter server is with each agent."""
        found = cast(dict[bytes, bytes], self._client.hgetall(self._up.acks))
        return {name.decode(): _acknowledgements.decode(answer) for name, answer in found.items()}

    def tell_all(self) -> None:
        """Tell agents how far the parameter server is, also those that believe that it is further."""
        told = {name: _encode(one) for name, one in self.state.acknowledgements().items()}
        with self._client.pipeline(transaction=True) as pipeline:
            pipeline.delete(self._down.acks)
            if told:
                pipeline.hset(self._down.acks, mapping=cast(dict[Any, Any], told))
            pipeline.execute()

    def pass_on_model(self) -> None:
        """Give agents acknowledgements, and then what is new of the model, which contains what they say."""
        changed = self._acknowledged(self._answer())
        is_due = time.monotonic() >= self._model_at_s
        up = self._up.model_updates
        entries = self._broker.read(up, self._updates_to, KEPT_UPDATES) if is_due else []
        if entries:
            self._updates_to = entries[-1][0]
        updates = list(self._broker.seal.decoded(entries, _updates))
        known, model = self._functions, self._model
        if updates and model is not None and updates[-1].server != model[0]:
            self.is_lost = True
            return
        is_whole = bool(updates) and (
            model is None or (updates[0].server, updates[0].version) != (model[0], model[1] + 1)
        )
        if is_whole:
            known, changed = 0, self.state.acknowledgements()
        if not (updates or changed):
            return
        names, rows = self._new_rows(updates, known, is_whole)
        with self._client.pipeline(transaction=True) as pipeline:
            if is_whole:
                pipeline.delete(self._down.model, self._down.functions)
            if changed:
                acknowledged = {name: _encode(one) for name, one in changed.items()}
                pipeline.hset(self._down.acks, mapping=cast(dict[Any, Any], acknowledged))
            if rows:
                pipeline.hset(self._down.model, mapping=cast(dict[Any, Any], rows))
            if names:
                pipeline.rpush(self._down.functions, *names)
            told = changed if len(changed) <= MOST_ACKNOWLEDGED else {}
            for at, update in enumerate(updates, 1):
                if is_whole and at < len(updates):
                    # Agents see that they have missed something, and fetch all.
                    continue
                own = msgspec.structs.replace(
                    update, acknowledgements=told if at == len(updates) else {}, functions=known + len(names)
                )
                payload = self._broker.seal.encode(own)
                pipeline.xadd(self._down.model_updates, {PAYLOAD: payload}, maxlen=KEPT_UPDATES)
            pipeline.execute()
        if updates:
            self._functions = known + len(names)
            self._model = updates[-1].server, updates[-1].version
            # In a cluster each leaf server's keys are on some node; elsewhere all agents fetch from the same.
            is_cluster = isinstance(self._client, RedisCluster)
            readers = self.state.agents if is_cluster else updates[-1].agents
            self._model_at_s = time.monotonic() + pause_s(len(rows), readers)

    def _new_rows(
        self, updates: list[ModelUpdate], known: int, is_whole: bool
    ) -> tuple[list[bytes], dict[bytes, bytes]]:
        """Return names of further functions, and rows of the model by number: changed ones, or all."""
        if not updates:
            return [], {}
        names = cast(list[bytes], self._client.lrange(self._up.functions, known, -1))
        if is_whole:
            return names, cast(dict[bytes, bytes], self._client.hgetall(self._up.model))
        changed = distinct(np.concatenate([np.frombuffer(one.numbers, np.int32) for one in updates]))
        if not len(changed):
            return names, {}
        fields = [str(number).encode() for number in changed.tolist()]
        found = cast(list[bytes | None], self._client.hmget(self._up.model, cast(Any, fields)))
        return names, {field: row for field, row in zip(fields, found, strict=True) if row is not None}

    def _answer(self) -> bytes | None:
        return cast("bytes | None", self._client.hget(self._up.acks, self.state.name))

    def _acknowledged(self, answer: bytes | None) -> dict[str, Acknowledgement]:
        return {} if answer is None else self.state.acknowledge(_acknowledgements.decode(answer))

    def _put(self, deltas: list[Delta], now_s: float) -> None:
        for delta in deltas:
            self._client.xadd(self._up.deltas, {PAYLOAD: self._broker.seal.encode(delta)})
        self._sent_s = now_s


class LeafServer:
    """A leaf server as a loop over the broker.

    Parameters
    ----------
    broker
        Broker of the run, with the keys of the parameter server.
    """

    def __init__(self, broker: RunBroker, schema: TableSchema, place: LeafPlace) -> None:
        self._broker = broker
        self._place = place
        self._schema = schema
        self._round_s = 0.0
        self._begin_anew()

    def run(self, should_stop: Callable[[], bool]) -> None:
        """Serve until asked to stop and all is saved by the parameter server."""
        while not (self.serve_once() and should_stop()):
            pass

    def serve_once(self) -> bool:
        """Serve for one round; return whether nothing is left to do."""
        try:
            if not self._has_begun:
                self._begin()
                return False
            return self._serve()
        except redis.RedisError as error:
            log(f"broker does not answer ({error}); trying again")
            time.sleep(RETRY_S)
            self._begin_anew()
            return False

    def _begin_anew(self) -> None:
        """Forget everything: broker or parameter server may have lost what they had, and agents have it."""
        self._has_begun = False
        keys, below = self._broker.keys, self._broker.keys.of_leaf(self._place.number)
        name, incarnation = f"leaf {self._place.number}", time.time_ns()
        self._parts = [
            _LeafPart(
                self._broker,
                LeafState(name, incarnation, self._schema),
                keys.part(part),
                below.part(part),
            )
            for part in range(self._place.parts)
        ]

    def _begin(self) -> None:
        """Learn what the parameter server has of agents, once nothing of an earlier leaf server can come."""
        are_known = [part.greet(time.monotonic()) for part in self._parts]
        if not all(are_known):
            time.sleep(ROUND_S / 2)
            return
        names = self._kept_names()
        number, leaves = self._place.number, self._place.leaves
        for at, part in enumerate(self._parts):
            before = part.acknowledged_before()
            own = {name: one for name, one in before.items() if leaf_of_agent(name, leaves) == number}
            own.pop(part.state.name, None)
            part.state.restore(own, names.get(at, {}))
            part.tell_all()
        self._has_begun = True

    def _serve(self) -> bool:
        wait_s = max(0.0, self._round_s + ROUND_S - time.monotonic())
        merged = sum(part.merge(wait_s / len(self._parts)) for part in self._parts)
        now_s = time.monotonic()
        if now_s < self._round_s + ROUND_S:
            return False
        self._round_s = now_s
        self._keep_names()
        for part in self._parts:
            part.send(now_s)
            part.pass_on_model()
        if any(part.is_lost for part in self._parts):
            log("another parameter server has taken over; agents are asked for what it does not have")
            self._begin_anew()
            return False
        return not merged and all(part.state.is_empty for part in self._parts)

    def _kept_names(self) -> dict[int, dict[str, NamedFunctions]]:
        for path in self._place.names:
            try:
                kept = msgspec.msgpack.decode(path.read_bytes(), type=dict[int, dict[str, NamedFunctions]])
            except FileNotFoundError:
                continue
            except (OSError, msgspec.MsgspecError) as error:
                raise ServiceError(f"{path}: names of functions cannot be read ({error})") from error
            return kept
        return {}

    def _keep_names(self) -> None:
        """Keep names before the deltas that bring them are acknowledged: agents send them once."""
        if not any(part.state.are_names_new for part in self._parts):
            return
        kept = msgspec.msgpack.encode({at: part.state.names for at, part in enumerate(self._parts)})
        for path in self._place.names:
            write_atomically(path, kept)
        for part in self._parts:
            part.state.are_names_new = False
