"""Broker as one run sees it: a connection, the run's keys, and the header of its messages.

``RunKeys`` has all keys of a run at its broker: what each holds, who writes it and who reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import redis

from chimbuko.core.config import MOST_PARTS, MOST_WRITERS
from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.runtime.protocol.broker import connect
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE
from chimbuko.runtime.protocol.messages import PAYLOAD, Seal


class PartKeys:
    """Keys between agents, or dashboards, and one part of the parameter server, or a leaf server for it."""

    def __init__(self, begin: str, part: int) -> None:
        end = f"-{part}" if part else ""
        self.deltas = f"{begin}deltas{end}"
        """Stream of ``Delta``, agents to server."""
        self.acks = f"{begin}acks{end}"
        """Hash: agent to an ``Acknowledgement``."""
        self.model_updates = f"{begin}model-updates{end}"
        """Stream of ``ModelUpdate``, server to agents."""
        self.model = f"{begin}model{end}"
        """Hash: number of a function to its row of the model, as a ``PackedTable`` of one row."""
        self.functions = f"{begin}functions{end}"
        """List of ``FunctionName``, in order of their numbers."""
        self.snapshot_wanted = f"{begin}snapshot-wanted{end}"
        """Key that a dashboard sets which came late, or was away, to ask for a snapshot."""
        self.snapshot = f"{begin}snapshot{end}"
        """Key with the snapshot: a ``Frame`` with all there is. Frames of a higher tick continue it."""
        self.timers_wanted = f"{begin}timers-wanted{end}"
        """Key that is set, anew each time, to ask for the runtimes of functions on each rank."""
        self.timers = f"{begin}timers{end}"
        """Key with the last answer, as ``RankTimers``, and at the end the server's final one."""


class RunKeys:
    """Keys of one run: several runs may share a broker.

    The part in braces decides where in a cluster a key is: all of a run are together, since some change
    together.

    Parameters
    ----------
    writer
        Number of one of several writers, counted from 1: it and its agents have a stream of their own for
        records. 0 where there is only one writer.
    leaf
        Number of a leaf server, counted from 1: it and its agents have keys of their own for deltas and
        models, on any node of a cluster. 0 where there is none.
    """

    def __init__(self, run_id: str, writer: int = 0, leaf: int = 0) -> None:
        begin = f"{{chimbuko:{run_id}}}:"
        self._run = run_id
        self._recall_answers = begin + "recall-answers:"
        self._parts = self._parts_of_leaf(leaf)
        self._records = tuple(f"{begin}records{f'-{one}' if one else ''}" for one in range(1 + MOST_WRITERS))
        self.records = self._records[writer]
        """Stream of ``RecordBatch``, agents to their writer."""
        self.stored = begin + "stored"
        """Stream of ``StoredCalls``, several writers to the one process that explains what they stored."""
        self.node_batches = begin + "node-batches"
        """Stream of ``NodeBatch``, agents to store, which removes what it has written; the oldest are dropped
        where they are too many.
        """
        self.record_acks = begin + "record-acks"
        """Hash: stream key to the last batch sequence that is committed in the store."""
        self.budgets = begin + "budgets"
        """Hash: number of a writer to the abnormal calls per second that it takes of each of its agents."""
        self.statistics = begin + "statistics"
        """Stream of ``RunStatistics``, server to store, which removes what it has written."""
        self.wake = begin + "wake"
        """Stream of empty entries, anybody to server and store: somebody waits, so they shall not."""
        self.store_news = begin + "store-news"
        """Stream of lines for the user, anybody to services: what keeps records from being stored and when
        that ends, and what there is no room for.
        """
        self.copy_wanted = begin + "copy-wanted"
        """Key that is set from another node, anew each time, to ask for a copy of the store of a live run."""
        self.copy_made = begin + "copy-made"
        """Key with the value of ``copy_wanted`` for which a copy was made that all nodes see."""
        self.frames = begin + "frames"
        """Stream of ``Frame``, server to dashboards."""
        self.dashboard = begin + "dashboard"
        """Key with the address of the dashboard, without its token; ends in ``/``."""
        self.programs = begin + "programs"
        """Hash: program name to program index."""
        self.recall_requests = begin + "recall-requests"
        """Stream of ``RecallRequest``, anybody to agents."""
        self.waits_requests = begin + "waits-requests"
        """Stream of ``WaitsRequest``, store to agents; the oldest are dropped where they are too many."""
        self.owners = begin + "rank-owners"
        """Hash: program and rank to the agent that reads its stream."""
        self.rivals = begin + "rank-rivals"
        """Hash: program and rank to an agent that found another stream of it, which is not read."""
        self.instances = begin + "instances"
        """Hash: program and number of an instance, from 1 on, to the rank in the run of its rank 0."""
        self.trace_ends = begin + "trace-ends"
        """Hash: number of an agent's share of recorded streams to its newest event in µs, once it is read."""
        self.roll_call = begin + "roll-call"
        """Hash: agent to its ``Answer``."""
        self.silent = begin + "silent"
        """Key with the agents that are not heard, services to server and store, as ``SilentAgents``."""
        self.metric_findings = begin + "metric-findings"
        """Key with all findings in what programs publish of their computation, as ``Findings``, from whoever
        watches that to the store; it is set again now and then.
        """
        self.ending = begin + "ending"
        """Key that is there from the start of the services on, and says whether the run is to come to an end.
        """

    def all(self, leaves: int = 0) -> tuple[str, ...]:
        """Return all keys that a run leaves behind, if nobody removes them.

        Parameters
        ----------
        leaves
            Number of leaf servers.
        """
        own = (key for name, key in vars(self).items() if not name.startswith("_") and name != "records")
        parts = (part for leaf in range(leaves + 1) for part in self._parts_of_leaf(leaf))
        return (*own, *self._records, *(key for part in parts for key in vars(part).values()))

    def part(self, part: int) -> PartKeys:
        """Return the keys of one part of the parameter server, counted from 0, or of the leaf for it."""
        return self._parts[part]

    def of_leaf(self, leaf: int) -> RunKeys:
        """Return the keys as a leaf server and its agents have them."""
        return RunKeys(self._run, leaf=leaf)

    def _parts_of_leaf(self, leaf: int) -> tuple[PartKeys, ...]:
        place = f"{self._run}:leaf-{leaf}" if leaf else self._run
        return tuple(PartKeys(f"{{chimbuko:{place}}}:", part) for part in range(MOST_PARTS))

    def recall_answers(self, request_id: str) -> str:
        """Return the key of the list of ``RecallAnswer`` to a request; a count of its bytes is beside it."""
        return self._recall_answers + request_id


Entries = list[tuple[bytes, bytes]]
"""Entries of a stream: id and encoded message."""

_PROGRAM_NUMBER = """
local number = redis.call('HGET', KEYS[1], ARGV[1])
if not number then
    number = redis.call('HLEN', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[1], number)
end
return tonumber(number)
"""
"""Script for the broker: it takes one round trip, where a transaction that watches the key takes four, and
more where others begin at the same time. Over a slow link a stream's first steps pass meanwhile.
"""
MOST_NEWS = 100
"""Maximum number of lines for the user that the broker keeps; the services read them every few seconds."""


class RunBroker:
    """A connection to the broker of a run.

    Attributes
    ----------
    client
        Connection to the broker.
    keys
        Keys of the run there; other runs may have theirs beside them.
    seal
        Header of the run's messages, which encodes them and refuses those of others.
    writer
        Number of the writer that this process is, or that stores what it finds; 0 for the only one.
    """

    def __init__(self, client: redis.Redis, run_id: str, writer: int = 0, leaf: int = 0) -> None:
        self.client = client
        self.writer = writer
        self.keys = RunKeys(run_id, writer, leaf)
        self.seal = Seal(run_id)

    @classmethod
    def connect(
        cls, url: str, run_id: str, timeout_s: float = 5.0, found_in: Path | None = None
    ) -> RunBroker:
        """Open a connection, and try it; parameters and errors are those of ``broker.connect``."""
        return cls(connect(url, timeout_s, found_in), run_id)

    @classmethod
    def from_environment(
        cls, run_id: str, found_in: Path | None = None, writer: int = 0, leaf: int = 0
    ) -> RunBroker:
        """Connect to the broker that the process which started us named; each interrupted connection is an
        error.

        Parameters
        ----------
        writer
            Number of the writer that this process is, or that stores what it finds, as for ``RunKeys``.
        leaf
            Number of the leaf server that merges what this process learns.

        Raises
        ------
        ServiceError
            No broker was named.
        """
        url = os.environ.get(BROKER_VARIABLE)
        if not url:
            raise ServiceError(f"{BROKER_VARIABLE} is not set: this process is started by 'chimbuko run'")
        client = connect(url, found_in=found_in, redis_connect_func=_Interruptions())
        return cls(client, run_id, writer, leaf)

    def read(self, stream: str, after: bytes, count: int, block_ms: int | None = None) -> Entries:
        """Return entries of a stream after the id ``after``, as (id, encoded message).

        With ``block_ms`` it waits for them; where none comes, up to 100 ms longer than that (Valkey looks at
        its timers ten times a second).
        """
        answer = cast(list[Any], self.client.xread({stream: after}, count=count, block=block_ms) or [])
        return [(entry, fields[PAYLOAD]) for _, entries in answer for entry, fields in entries]

    def wake(self) -> None:
        """Let server and store know that somebody waits for them."""
        self.client.xadd(self.keys.wake, {PAYLOAD: b""}, maxlen=1)

    def notify_user(self, line: str) -> None:
        """Notify the user of the run of something, at once and in its summary."""
        self.client.xadd(self.keys.store_news, {PAYLOAD: line}, maxlen=MOST_NEWS)

    def program_number(self, name: str) -> int:
        """Return the index of a program in this run, the same for all who ask; a new program gets the next
        free one.
        """
        return int(cast(int, self.client.eval(_PROGRAM_NUMBER, 1, self.keys.programs, name)))


def wake_ourselves(run_id: str) -> None:
    """End a wait for the broker in this process; for a handler of signals."""
    with suppress(ChimbukoError, redis.RedisError):
        broker = RunBroker.connect(os.environ[BROKER_VARIABLE], run_id, 1.0)
        with broker.client:
            broker.wake()


class _Interruptions:
    """Connection hook that makes the second opening of a connection fail, and the third one not, and so on.

    Otherwise the client connects again without an error, and a process that was stopped while the broker was
    started anew would never know that the broker's contents are lost.
    """

    def __init__(self) -> None:
        self._begun: WeakSet[redis.Connection] = WeakSet()

    def __call__(self, connection: redis.Connection) -> None:
        if connection in self._begun:
            self._begun.remove(connection)
            raise redis.ConnectionError("the connection was interrupted")
        connection.on_connect()  # type: ignore[no-untyped-call]
        self._begun.add(connection)


class PatientReader:
    """Reader of streams that waits for entries as long as nobody waits for this process."""

    def __init__(self, broker: RunBroker) -> None:
        self._client = broker.client
        self._wake = broker.keys.wake
        self._woken_to = b"0"

    def read_again(self) -> None:
        """Read from the beginning: a broker that was restarted may number anew."""
        self._woken_to = b"0"

    def read(self, after: Mapping[str, bytes], count: int, wait_s: float) -> tuple[list[Entries], bool]:
        """Return entries of each stream after an id, as (id, encoded message), and whether somebody waits.

        It waits for either, as ``RunBroker.read`` does; not at all for 0 s.
        """
        block_ms = max(round(1000 * wait_s), 1) if wait_s > 0.0 else None
        wanted = cast(Any, {**after, self._wake: self._woken_to})
        answer = cast(list[Any], self._client.xread(wanted, count=count, block=block_ms) or [])
        found = {stream.decode(): entries for stream, entries in answer}
        if woken := found.get(self._wake, []):
            self._woken_to = woken[-1][0]
        messages = [[(entry, fields[PAYLOAD]) for entry, fields in found.get(stream, [])] for stream in after]
        return messages, bool(woken)
