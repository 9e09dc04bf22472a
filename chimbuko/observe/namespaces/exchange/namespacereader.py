"""Reader of namespaces: their present state, earlier publications, and those from now on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path as FilePath
from types import TracebackType
from typing import Self, cast

import msgspec
import redis

from chimbuko.core.errors import ObservationError, ServiceError
from chimbuko.observe.namespaces.exchange.jobaddress import READER, JobAddress, find_address
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.exchange.paths import Path, parse_path
from chimbuko.observe.namespaces.exchange.shardstate import (
    CHUNK,
    Counts,
    LogReading,
    ShardState,
    entries_after,
)
from chimbuko.observe.namespaces.exchange.tree import Change, Nested, Tree, nested

LOOK_PERIOD_S = 0.05
"""Interval between two looks for new publications, in seconds."""
MOST_AT_ONCE = 1000
"""Most observations of one instance that are read at once, as many may have been kept."""


class Observation(msgspec.Struct, frozen=True):
    """Observation: the part that was asked for of what a client published at one moment."""

    namespace: str
    instance: int
    id: str
    """Id of the publication in the log of its instance."""
    client: str
    rank: int
    time_us: int
    """Time in µs since the epoch, by the client's clock."""
    commits: int
    change: Change


class Subscription:
    """Subscription to everything published from some moment on; ``Reader.subscription`` makes it."""

    def __init__(self, shards: Sequence[Callable[[], Iterator[Observation]]]) -> None:
        self._shards = shards

    def new(self) -> list[Observation]:
        """Return the observations since the last call; none while the broker is away, and later calls make up
        for it.
        """
        found: list[Observation] = []
        with suppress(redis.RedisError):
            for new in self._shards:
                found.extend(islice(new(), MOST_AT_ONCE))
        return found


class Reader:
    """Reader of the namespaces of a job.

    Parameters
    ----------
    place
        Folder of a service, file of a job, or URL; default that in ``CHIMBUKO_NAMESPACES``.

    Raises
    ------
    ConfigError, ServiceError
        There is no such place, or nobody answers there.
    """

    def __init__(self, place: str | FilePath | JobAddress | None = None) -> None:
        self._place = place if isinstance(place, JobAddress) else find_address(place, READER)
        self._client = self._place.connect()
        try:
            self._about = self._place.about(self._client)
        except BaseException:
            self._client.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @property
    def namespaces(self) -> list[str]:
        """Return the names of all namespaces."""
        return list(self._about.instances)

    def tree(self, namespace: str, under: str = "") -> Tree:
        """Return the leaf at a path, or all leaves in a group, with their present values."""
        states = [self._state(shard) for shard in self._shards(namespace)]
        leaves = [
            (state.times_us[path], path, leaf)
            for state in states
            for path, leaf in state.tree.under(parse_path(under))
        ]
        # Where clients of several instances disagree on what is at a path, the last one is right.
        leaves.sort(key=lambda entry: entry[:2])
        return Tree((path, leaf) for _, path, leaf in leaves)

    def read(self, namespace: str, under: str = "") -> Nested:
        """Return the leaf at a path, or a group as nested dictionaries, from the outermost key on.

        Raises
        ------
        ObservationError
            Nothing was published under that path.
        """
        found = self.tree(namespace, under)
        if under and not found:
            raise ObservationError(
                f"{under}: no such key in namespace {namespace}; without a key you read all that there are"
            )
        return nested(found)

    def counts(self, namespace: str) -> list[Counts]:
        """Return the counts of each instance."""
        return [self._state(shard).reading.counts for shard in self._shards(namespace)]

    def history(self, namespace: str, under: str = "") -> list[Observation]:
        """Return the publications, as far back as they are kept, in the order of the clients' clocks."""
        found = list(self._new(namespace, parse_path(under), self._readings(namespace, True)))
        return sorted(found, key=lambda observation: observation.time_us)

    def subscribe(
        self,
        namespace: str,
        under: str = "",
        has_past: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[Observation]:
        """Yield observations as they are published from now on, until ``should_stop`` returns True.

        Nothing is left out while the broker is away and comes back, up to what is kept of the past.

        Parameters
        ----------
        has_past
            Begin with what is still kept of the past.
        """
        subscription = self.subscription(namespace, under, has_past)

        def observations() -> Iterator[Observation]:
            while not should_stop():
                found = subscription.new()
                yield from found
                if not found:
                    time.sleep(LOOK_PERIOD_S)

        return observations()

    def subscription(self, namespace: str, under: str = "", has_past: bool = False) -> Subscription:
        """Return a subscription, for callers that ask for news again and again."""
        readings = self._readings(namespace, has_past)
        path = parse_path(under)
        return Subscription(
            [partial(self._new, namespace, path, {shard: reading}) for shard, reading in readings.items()]
        )

    def _shards(self, namespace: str) -> list[Shard]:
        return self._place.shards(self._about, namespace)

    def _state(self, shard: Shard) -> ShardState:
        """Return the state of an instance as it will be when the rest of its log is merged."""
        try:
            state = ShardState.of(cast(dict[bytes, bytes], self._client.hgetall(shard.state)))
            while entries := entries_after(self._client, shard, state.reading.position):
                state.take(entries)
        except redis.RedisError as error:
            raise ServiceError(f"namespace {shard.namespace} cannot be read ({error})") from error
        return state

    def _readings(self, namespace: str, has_past: bool) -> dict[Shard, LogReading]:
        """Return the position in each log from which to read."""
        shards = self._shards(namespace)
        return {shard: LogReading() if has_past else self._state(shard).reading for shard in shards}

    def _new(self, namespace: str, under: Path, readings: dict[Shard, LogReading]) -> Iterator[Observation]:
        for shard, reading in readings.items():
            while entries := entries_after(self._client, shard, reading.position):
                for entry, publication in reading.take(entries):
                    change = _under(publication.change, under)
                    if change:
                        yield Observation(
                            namespace,
                            shard.instance,
                            entry.decode(),
                            publication.client,
                            publication.rank,
                            publication.time_us,
                            publication.commits,
                            change,
                        )
                if len(entries) < CHUNK:
                    break


def _under(change: Change, path: Path) -> Change:
    length = len(path)
    return Change(
        {at: leaf for at, leaf in change.put.items() if at[:length] == path},
        {at: leaf for at, leaf in change.appended.items() if at[:length] == path},
    )
