"""The broker as one run sees it: a connection, the run's keys, and the seal of its messages."""

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
from chimbuko.runtime.protocol.keys import RunKeys
from chimbuko.runtime.protocol.messages import PAYLOAD, Seal

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
