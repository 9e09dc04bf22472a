"""The broker as one run sees it: a connection, the run's keys, and the seal of its messages.

All that a run has at its broker: each key, what it holds, who writes it and who reads it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast
from weakref import WeakSet

import redis

from chimbuko.core.errors import ChimbukoError, ServiceError
from chimbuko.runtime.protocol.broker import BROKER_VARIABLE, connect
from chimbuko.runtime.protocol.messages import PAYLOAD, Seal
from chimbuko.runtime.protocol.partition import MOST_PARTS


class PartKeys:
    """What is between agents, or dashboards, and one part of the parameter server."""

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
        """Key that a dashboard sets which came late, or was away."""
        self.snapshot = f"{begin}snapshot{end}"
        """Key with the answer: a ``Frame`` with all there is. Frames of a higher tick go on from there."""
        self.timers_wanted = f"{begin}timers-wanted{end}"
        """Key that somebody sets, anew each time, who wants to know what functions took on each rank,"""
        self.timers = f"{begin}timers{end}"
        """and the last answer, as ``RankTimers``; the server's last word is there, too."""


class RunKeys:
    """The keys of one run: several runs may share a broker.

    What stands in braces decides where in a cluster a key is: all of a run are together, since some change
    together.
    """

    def __init__(self, run_id: str) -> None:
        begin = f"{{chimbuko:{run_id}}}:"
        self._recall_answers = begin + "recall-answers:"
        self._parts = tuple(PartKeys(begin, part) for part in range(MOST_PARTS))
        self.records = begin + "records"
        """Stream of ``RecordBatch``, agents to store."""
        self.node_batches = begin + "node-batches"
        """Stream of ``NodeBatch``, agents to store, which removes what it has written; the oldest go where
        they are too many."""
        self.record_acks = begin + "record-acks"
        """Hash: stream key to the last batch sequence that is committed in the store."""
        self.statistics = begin + "statistics"
        """Stream of ``RunStatistics``, server to store, which removes what it has written."""
        self.wake = begin + "wake"
        """Stream of empty entries, anybody to server and store: somebody waits, so neither do they."""
        self.store_news = begin + "store-news"
        """Stream of lines for the user, anybody to services: what keeps records from being stored and when it
        ends, what there is no room for."""
        self.copy_wanted = begin + "copy-wanted"
        """Key that somebody on another node sets, anew each time, who wants to look into the store of a live
        run,"""
        self.copy_made = begin + "copy-made"
        """and the same, when a copy of it was made that all nodes see."""
        self.frames = begin + "frames"
        """Stream of ``Frame``, server to dashboards."""
        self.dashboard = begin + "dashboard"
        """Key with the address of the dashboard, without its token; ends in ``/``."""
        self.programs = begin + "programs"
        """Hash: program name to program index."""
        self.recall_requests = begin + "recall-requests"
        """Stream of ``RecallRequest``, anybody to agents."""
        self.waits_requests = begin + "waits-requests"
        """Stream of ``WaitsRequest``, store to agents; the oldest go where they are too many."""
        self.owners = begin + "rank-owners"
        """Hash: program and rank to the agent that reads its stream."""
        self.rivals = begin + "rank-rivals"
        """Hash: program and rank to an agent that found another stream of it, which is not read."""
        self.instances = begin + "instances"
        """Hash: program and number of an instance, from 1 on, to the rank in the run of what it takes for
        rank 0."""
        self.trace_ends = begin + "trace-ends"
        """Hash: number of an agent's share of recorded streams to its newest event in µs, once it is read."""
        self.roll_call = begin + "roll-call"
        """Hash: agent to its ``Answer``."""
        self.silent = begin + "silent"
        """Key with agents of which nothing is heard, services to server and store, as ``SilentAgents``."""
        self.metric_findings = begin + "metric-findings"
        """Key with all that was found in what programs publish of their computation, as ``Findings``, whoever
        watches that to store; it is set again now and then."""
        self.ending = begin + "ending"
        """There from the start of the services on; it says whether the run is to come to an end."""
        own = (key for name, key in vars(self).items() if not name.startswith("_"))
        self.all = (*own, *(key for part in self._parts for key in vars(part).values()))
        """Those that a run leaves behind, if nobody removes them."""

    def part(self, part: int) -> PartKeys:
        """Those of one part of the parameter server, counted from 0."""
        return self._parts[part]

    def recall_answers(self, request_id: str) -> str:
        """Key of the list of ``RecallAnswer`` to a request; a count of its bytes is beside it."""
        return self._recall_answers + request_id


Entries = list[tuple[bytes, bytes]]
"""Of a stream: id and encoded message."""

_PROGRAM_NUMBER = """
local number = redis.call('HGET', KEYS[1], ARGV[1])
if not number then
    number = redis.call('HLEN', KEYS[1])
    redis.call('HSET', KEYS[1], ARGV[1], number)
end
return tonumber(number)
"""
"""For the broker: one round trip, where a transaction that watches the key takes four, and more where others
begin at the same time. Over a slow link a stream's first steps pass meanwhile."""
MOST_NEWS = 100
"""Lines for the user that the broker keeps; the services read them every few seconds."""


class RunBroker:
    """A connection to the broker of a run.

    Attributes
    ----------
    client
        The connection.
    keys
        The run's keys there; others may have theirs beside them.
    seal
        Encodes the run's messages, and refuses those of others.
    """

    def __init__(self, client: redis.Redis, run_id: str) -> None:
        self.client = client
        self.keys = RunKeys(run_id)
        self.seal = Seal(run_id)

    @classmethod
    def connect(
        cls, url: str, run_id: str, timeout_s: float = 5.0, found_in: Path | None = None
    ) -> RunBroker:
        """A connection that has been tried; parameters and errors are those of ``broker.connect``."""
        return cls(connect(url, timeout_s, found_in), run_id)

    @classmethod
    def from_environment(cls, run_id: str, found_in: Path | None = None) -> RunBroker:
        """The broker that the process which started us named; each interrupted connection is an error.

        Raises
        ------
        ServiceError
            It named none.
        """
        url = os.environ.get(BROKER_VARIABLE)
        if not url:
            raise ServiceError(f"{BROKER_VARIABLE} is not set: this process is started by 'chimbuko run'")
        return cls(connect(url, found_in=found_in, redis_connect_func=_Interruptions()), run_id)

    def read(self, stream: str, after: bytes, count: int, block_ms: int | None = None) -> Entries:
        """Entries of a stream after the id ``after``, as (id, encoded message).

        With ``block_ms`` it waits for them; where none comes, up to 100 ms longer than that (Valkey looks
        at its timers ten times a second).
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
        """Index of a program in this run, the same for all who ask; the next free one for a new program."""
        return int(cast(int, self.client.eval(_PROGRAM_NUMBER, 1, self.keys.programs, name)))


def wake_ourselves(run_id: str) -> None:
    """For a handler of signals: end a wait for the broker in this process."""
    with suppress(ChimbukoError, redis.RedisError):
        broker = RunBroker.connect(os.environ[BROKER_VARIABLE], run_id, 1.0)
        with broker.client:
            broker.wake()


class _Interruptions:
    """Makes the second beginning of a connection fail, and the third one not, and so on.

    Otherwise the client connects again without a word, and whoever stood still while the broker was started
    anew would never know that what was in it is lost.
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
    """Reads streams, and waits for entries as long as nobody waits for this process."""

    def __init__(self, broker: RunBroker) -> None:
        self._client = broker.client
        self._wake = broker.keys.wake
        self._woken_to = b"0"

    def read_again(self) -> None:
        """A broker that was restarted may number anew."""
        self._woken_to = b"0"

    def read(self, after: Mapping[str, bytes], count: int, wait_s: float) -> tuple[list[Entries], bool]:
        """Entries of each stream after an id, as (id, encoded message), and whether somebody waits.

        Waits for either, as ``RunBroker.read`` does; not at all for 0 s.
        """
        block_ms = max(round(1000 * wait_s), 1) if wait_s > 0.0 else None
        wanted = cast(Any, {**after, self._wake: self._woken_to})
        answer = cast(list[Any], self._client.xread(wanted, count=count, block=block_ms) or [])
        found = {stream.decode(): entries for stream, entries in answer}
        if woken := found.get(self._wake, []):
            self._woken_to = woken[-1][0]
        messages = [[(entry, fields[PAYLOAD]) for entry, fields in found.get(stream, [])] for stream in after]
        return messages, bool(woken)
