"""Process of one instance of a namespace: it merges publications into its shards.

A shard is merged by the instance of its number. Where that has died another instance of the namespace takes
its place, until it is there again.
"""

from __future__ import annotations

import argparse
import sys
import time
import uuid
from pathlib import Path

import redis
from redis.exceptions import RedisClusterException

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.service.folder import ServiceFolder
from chimbuko.observe.namespaces.service.heldshard import WANTED_MS, HeldShard, make_log
from chimbuko.runtime.process.lifetime import log, say_ready
from chimbuko.runtime.process.signals import StopSignal

SHORTEST_LOOK_S, LONGEST_LOOK_S = 0.02, 0.2
"""Interval between two looks into the logs: the shortest while something is published, the longest while
nothing is.
"""
LEASE_LOOK_S = 0.5
"""Interval between two looks for shards that nobody holds."""


class Instance:
    """Holder of shards, which merges new publications.

    Parameters
    ----------
    number
        Number of the instance, from 0 on.
    """

    def __init__(self, folder: ServiceFolder, client: redis.Redis, namespace: str, number: int) -> None:
        self._folder = folder
        self._client = client
        self._namespace = namespace
        self._number = number
        self._owner = uuid.uuid4().hex
        self._held: dict[Shard, HeldShard] = {}
        self._look_at_s = 0.0

    def look(self) -> bool:
        """Look once at all shards, and return True where something was published."""
        is_busy = False
        for shard, held in list(self._held.items()):
            merged = held.merge()
            if merged is None:
                log(f"{shard.state}: another instance has taken over")
                del self._held[shard]
            is_busy = is_busy or bool(merged)
        if time.monotonic() >= self._look_at_s:
            self._look_at_s = time.monotonic() + LEASE_LOOK_S
            self._look_for_shards()
        return is_busy

    def release(self) -> None:
        """Give up all shards, so that other processes can take them."""
        for held in self._held.values():
            held.release()
        self._held.clear()

    def _look_for_shards(self) -> None:
        settings = self._folder.settings()
        wanted = {
            Shard(settings.name, job, self._namespace, number)
            for job in self._folder.jobs()
            for number in range(settings.instances)
        }
        for shard in [shard for shard in self._held if shard not in wanted]:
            # The job has gone.
            del self._held[shard]
        for shard in wanted:
            is_mine = shard.instance == self._number
            if shard in self._held:
                if not is_mine and self._held[shard].is_wanted():
                    self._held.pop(shard).release()
                continue
            if not is_mine and self._client.exists(shard.wanted):
                continue
            make_log(self._client, shard)
            held = HeldShard.taken(self._client, shard, self._owner, settings.keep_bytes)
            if held is not None:
                self._held[shard] = held
            elif is_mine:
                self._client.set(shard.wanted, self._owner, px=WANTED_MS)


def load() -> None:
    """Load this module before forking: forks share its imports."""


def main() -> None:
    """Run the process of an instance."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("namespace")
    parser.add_argument("number", type=int)
    options = parser.parse_args()
    should_stop = StopSignal()
    try:
        folder = ServiceFolder(options.folder)
        with folder.connect() as client:
            instance = Instance(folder, client, options.namespace, options.number)
            instance.look()
            say_ready(namespace=options.namespace, number=options.number)
            _serve(instance, should_stop)
    except (ChimbukoError, redis.RedisError) as error:
        log(str(error))
        sys.exit(error.exit_code if isinstance(error, ChimbukoError) else 4)


def _serve(instance: Instance, should_stop: StopSignal) -> None:
    pause_s, is_broken = SHORTEST_LOOK_S, False
    while not should_stop():
        try:
            pause_s = SHORTEST_LOOK_S if instance.look() else min(1.5 * pause_s, LONGEST_LOOK_S)
            is_broken = False
        except (redis.RedisError, RedisClusterException, OSError) as error:
            if not is_broken:
                log(f"the broker does not answer ({error}); it is tried further")
            is_broken, pause_s = True, LONGEST_LOOK_S
        time.sleep(pause_s)
    # What has been published until now is merged once more, and the next process need not wait.
    while instance.look():
        pass
    instance.release()


if __name__ == "__main__":
    main()
