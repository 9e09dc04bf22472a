"""The broker of a run: one of our own or one that runs share; it is kept going, and asked for news."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any, cast

import msgspec
import redis

from chimbuko.core.errors import ServiceError
from chimbuko.core.files import write_atomically
from chimbuko.runtime.process.supervisor import Revivals
from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.brokerdoor import BrokerDoor
from chimbuko.runtime.protocol.rankclaims import beginnings, rivalries
from chimbuko.runtime.protocol.runbroker import MOST_NEWS, RunBroker
from chimbuko.runtime.runs.directory import RunDirectory, RunInfo

KEPT_S = 3600
"""Seconds for which a broker that others share keeps what a run has there after the run has died. That is
longer than the end of a run takes; agents send again what is gone."""
SIGN_PERIOD_S = 10.0
"""Seconds between two signs of life in the run's folder."""


class BrokerKeeper:
    """Keeper of a run's broker, which is there from the run's start to its end.

    Parameters
    ----------
    info
        Description of the run, whose id is in each of its keys.
    url
        Address of a broker that somebody else runs; None for one of our own.
    bind
        Address and port of our own; None if all is on this node.
    problems
        Gets one line for each thing that is wrong.
    """

    def __init__(
        self,
        run: RunDirectory,
        info: RunInfo,
        url: str | None,
        bind: tuple[str, int] | None,
        problems: list[str],
    ) -> None:
        self.url = url or ""
        self._run = run
        self._run_id = info.id
        self._leaves = info.config.leaf_servers
        self._problems = problems
        self._private = None if url else PrivateBroker(run.logs / "broker.log")
        self._door = None if url or bind is None else BrokerDoor(run.logs, *bind)
        self._broker: RunBroker | None = None
        self._revivals = Revivals()
        self._programs: dict[bytes, bytes] = {}
        self._sign_at_s = 0.0
        self._store_news_to = b"0"
        self._instances = 0

    @property
    def broker(self) -> RunBroker:
        """A connection to it, from its start on."""
        assert self._broker is not None
        return self._broker

    def start(self, programs: tuple[str, ...]) -> None:
        """Start or greet it, and number programs in the given order.

        Raises
        ------
        ChimbukoError
            It cannot be started or reached.
        """
        if self._private is not None:
            self._private.start()
            self.url = self._private.url
        if self._door is not None:
            self._door.open(self.url)
        self._broker = RunBroker.connect(self.url, self._run_id)
        self._write_url()
        for program in (*self._numbered_programs(), *programs):
            self._broker.program_number(program)

    def revive(self, dashboard_url: str) -> list[str]:
        """Start our own broker again if it has ended, and its door; return a line about each."""
        broker, door, now_s = self._private, self._door, time.monotonic()
        ended = [
            name for name, one in (("broker", broker), ("broker's door", door)) if one and not one.is_running
        ]
        # They are never given up: without them nothing that was found can be delivered.
        if broker is None or not ended or not self._revivals.is_due(now_s):
            return []
        self._revivals = self._revivals.started(now_s)
        # They may be killed while they start, or there is no process to be had: then there is a next time.
        with suppress(ServiceError, OSError):
            if not broker.is_running:
                broker.start()
            if door is not None and not door.is_running:
                door.open(broker.url)
            self._write_url()
            self.keep_up(dashboard_url)
        return [f"the {name} ended early and was started again" for name in ended]

    def _write_url(self) -> None:
        """Write the broker's address into the run's folder, where verbs and other nodes look for it."""
        # A full disk takes 'chimbuko runs recall' and the like this, and not the user the run.
        with suppress(OSError):
            self._run.write_broker_url(self._door.url if self._door else self.url)

    def keep_up(self, dashboard_url: str) -> None:
        """See to it that the broker has what would be lost with it, and forgets us if we die."""
        if time.monotonic() >= self._sign_at_s:
            self._sign_at_s = time.monotonic() + SIGN_PERIOD_S
            with suppress(OSError):
                self._run.alive_path.touch(mode=0o600)
        with suppress(redis.RedisError):
            self._remember_programs()
            self.write_dashboard(dashboard_url)
            if self._private is None:
                # Each time: a key that is written anew would stay for ever.
                with self.broker.client.pipeline(transaction=False) as pipeline:
                    for key in self.broker.keys.all(self._leaves):
                        pipeline.expire(key, KEPT_S)
                    pipeline.execute()

    def write_dashboard(self, url: str) -> None:
        """Note where the dashboard is, without its token; nothing if there is none."""
        if url:
            self.broker.client.set(self.broker.keys.dashboard, url.partition("?")[0])

    def news(self) -> list[str]:
        """Return what the writer and the agents had to say since the last time."""
        return [*self._store_news(), *self._new_rivalries(), *self._new_instances()]

    def leave(self, is_to_be_tried_again: bool) -> None:
        """Stop our own, or clear what the run has at a shared one, unless the run is to be tried again."""
        if self._door is not None:
            self._door.close()
        if self._private is not None:
            self._private.stop()
            self._private = None
        elif self._broker is not None and not is_to_be_tried_again:
            with suppress(redis.RedisError):
                self._broker.client.delete(*self._broker.keys.all(self._leaves))

    def _numbered_programs(self) -> list[str]:
        """Return the programs of a run that goes on after its services have died, in the order of their
        numbers.
        """
        numbers = self._run.read_programs()
        return sorted(numbers, key=lambda name: numbers[name])

    def _remember_programs(self) -> None:
        """Remember the numbers of programs, which only the broker has; agents send all else again."""
        known = cast(dict[bytes, bytes], self.broker.client.hgetall(self.broker.keys.programs))
        if self._programs and not known:
            programs = cast(dict[Any, Any], self._programs)
            self.broker.client.hset(self.broker.keys.programs, mapping=programs)
        if known and known != self._programs:
            # For services that go on when these have died: findings are kept under these numbers.
            with suppress(OSError):
                numbers = {name.decode(): int(number) for name, number in known.items()}
                write_atomically(self._run.programs_path, msgspec.json.encode(numbers))
        self._programs = known or self._programs

    def _store_news(self) -> list[str]:
        with suppress(redis.RedisError):
            entries = self.broker.read(self.broker.keys.store_news, self._store_news_to, MOST_NEWS)
            lines = [line.decode() for _, line in entries]
            self._store_news_to = entries[-1][0] if entries else self._store_news_to
            self._problems += lines
            return lines
        return []

    def _new_rivalries(self) -> list[str]:
        with suppress(redis.RedisError):
            lines = [line for line in rivalries(self.broker) if line not in self._problems]
            self._problems += lines
            return lines
        return []

    def _new_instances(self) -> list[str]:
        with suppress(redis.RedisError):
            lines = beginnings(self.broker)
            self._instances, before = len(lines), self._instances
            return lines[before:]
        return []
