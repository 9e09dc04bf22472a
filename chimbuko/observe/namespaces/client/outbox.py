"""Outbox of a client: updates that wait for a commit, publications that wait to be sent, and the
thread that sends them.

Whoever publishes waits only if it wants to. If too much waits, because nobody answers for a long
time, publications to the same shard are merged: of overwritten values the intermediate ones are
lost then, of appended values nothing.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import redis
from redis.exceptions import RedisClusterException

from chimbuko.core.errors import ChimbukoError, ObservationError, ServiceError
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress
from chimbuko.observe.namespaces.exchange.keys import Shard
from chimbuko.observe.namespaces.exchange.leaves import is_same
from chimbuko.observe.namespaces.exchange.paths import Path
from chimbuko.observe.namespaces.exchange.tree import Change, Tree, leaf_at
from chimbuko.observe.namespaces.exchange.wire import LARGEST_BYTES, Publication, encode
from chimbuko.runtime.protocol.messages import PAYLOAD

MOST_LEAVES = 100_000
"""Most leaves whose values a client remembers. Other leaves accept any type, and each value counts as new."""


class Mode(Enum):
    """Mode of an update: what becomes of the value that was there."""

    OVERWRITE = "overwrite"
    APPEND = "append"


class Pending:
    """Updates and commits of one client in one namespace that are not published yet."""

    def __init__(self) -> None:
        self.frequency = 1
        """Number of commits for each publication."""
        self._tree = Tree()
        self._appended_to: set[Path] = set()
        """Leaves of which only the value appended last is remembered, for its type."""
        self._open = Change()
        self._committed = Change()
        self._commits = 0

    def update(self, path: Path, value: object, mode: Mode) -> None:
        """Set a leaf or append to it; setting the same value once more changes nothing.

        Raises
        ------
        ObservationError
            The value or its type does not fit.
        """
        if not path:
            raise ObservationError("the empty path is no key; give one like 'step'")
        leaf = self._tree.fit(path, leaf_at(path, value))
        old = self._tree.get(path)
        if mode is Mode.APPEND:
            self._appended_to.add(path)
            self._open.note_appended(path, leaf)
        elif old is None or path in self._appended_to or not is_same(old, leaf):
            self._appended_to.discard(path)
            self._open.note_put(path, leaf)
        else:
            return
        self._tree.put(path, leaf)
        while len(self._tree) > MOST_LEAVES:
            oldest = self._tree.oldest()
            self._tree.remove(oldest)
            self._appended_to.discard(oldest)

    def commit(self) -> bool:
        """Commit the updates, and return whether they are to be published now."""
        self._committed = self._committed.then(self._open)
        self._open = Change()
        self._commits += 1
        return self._commits >= self.frequency

    def taken(self) -> tuple[Change, int]:
        """Return the committed changes and the number of commits, which count as published from now on."""
        change, commits = self._committed, self._commits
        self._committed, self._commits = Change(), 0
        return change, commits


COMPACT_BYTES = 8 << 20
"""Bytes that wait before publications are merged."""
MOST_BYTES = 64 << 20
"""Most bytes that wait."""


@dataclass
class Letter:
    """A publication on its way, with the future of its arrival.

    Raises
    ------
    ObservationError
        It is too large.
    """

    shard: Shard
    publication: Publication
    arrivals: list[Future[None]] = field(default_factory=list)
    data: bytes = b""
    """Encoded publication."""

    def __post_init__(self) -> None:
        self.data = encode(self.publication)

    @property
    def size_bytes(self) -> int:
        """Size of the publication in memory, in bytes."""
        return len(self.data)

    def with_later(self, later: Letter) -> Letter:
        """Return this letter and a later one, merged."""
        old, new = self.publication, later.publication
        both = Publication(
            new.client,
            new.rank,
            new.sequence,
            new.time_us,
            old.commits + new.commits,
            old.change.then(new.change),
        )
        return Letter(self.shard, both, self.arrivals + later.arrivals)


class LetterQueue:
    """Queue of letters in the order in which they are to be sent."""

    def __init__(self) -> None:
        self._letters: deque[Letter] = deque()
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._letters)

    def add(self, letter: Letter) -> bool:
        """Add a letter at the end, and return False where there is no room for it."""
        if self.size_bytes + letter.size_bytes > COMPACT_BYTES:
            self._compact()
        if self.size_bytes + letter.size_bytes > MOST_BYTES:
            return False
        self._letters.append(letter)
        self.size_bytes += letter.size_bytes
        return True

    def take(self, most: int) -> list[Letter]:
        """Remove the first letters, and return them."""
        taken = [self._letters.popleft() for _ in range(min(most, len(self._letters)))]
        self.size_bytes -= sum(letter.size_bytes for letter in taken)
        return taken

    def _compact(self) -> None:
        last: dict[Shard, Letter] = {}
        kept: list[Letter] = []
        for letter in self._letters:
            before = last.get(letter.shard)
            if before is not None and before.size_bytes + letter.size_bytes < LARGEST_BYTES // 2:
                letter, place = before.with_later(letter), kept.index(before)
                kept[place] = letter
            else:
                kept.append(letter)
            last[letter.shard] = letter
        self._letters = deque(kept)
        self.size_bytes = sum(letter.size_bytes for letter in kept)


MOST_AT_ONCE = 100
"""Most publications in one round trip."""
SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 2.0
"""Shortest and longest pause between two attempts while the broker does not answer."""
_COMMAND = re.compile(r"^Command # \d+ \(.*?\) of pipeline caused error: ", re.DOTALL)
"""Beginning of redis-py's error messages: the publication itself, of which some bytes are no text."""


class Outbox:
    """Queue of publications, and the thread that sends them.

    Parameters
    ----------
    client
        A connection to the place's broker, of which this makes use from now on, and closes it.
    """

    def __init__(self, place: JobAddress, client: redis.Redis) -> None:
        self._place = place
        self._client = client
        self._queue = LetterQueue()
        self._changed = threading.Condition()
        self._is_closing = False
        self._deadline_s = 0.0
        self._in_flight = 0
        self.delivered = 0
        """Number of publications that have arrived."""
        self.lost = 0
        """Number of publications that could not be kept, or were refused."""
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, name="chimbuko-namespaces", daemon=True)
        self._thread.start()

    def send(self, letter: Letter) -> Future[None]:
        """Send a publication, and return a future that is done when it has arrived, or cannot arrive."""
        arrival: Future[None] = Future()
        letter.arrivals.append(arrival)
        with self._changed:
            has_room = not self._is_closing and self._queue.add(letter)
            if not has_room:
                self.lost += 1
            self._changed.notify_all()
        if not has_room:
            arrival.set_exception(ServiceError(f"a publication is lost: too many wait ({self.last_error})"))
        return arrival

    @property
    def waiting(self) -> int:
        """Number of publications that have not arrived yet."""
        with self._changed:
            return len(self._queue) + self._in_flight

    def close(self, timeout_s: float) -> int:
        """Send all waiting publications, within a number of seconds, and end; return how many publications
        did not arrive.
        """
        with self._changed:
            self._is_closing = True
            self._deadline_s = time.monotonic() + timeout_s
            self._changed.notify_all()
        self._thread.join(timeout_s + 2 * LONGEST_PAUSE_S)
        return self.waiting + self.lost

    def _run(self) -> None:
        while letters := self._next():
            self._deliver(letters)
            with self._changed:
                self._in_flight = 0
        with self._changed:
            left = self._queue.take(len(self._queue))
        self._give_up(left)
        self._client.close()

    def _next(self) -> list[Letter]:
        """Return the letters to be sent next; none at the end."""
        with self._changed:
            while not self._queue and not self._is_closing:
                self._changed.wait()
            if self._is_closing and time.monotonic() > self._deadline_s:
                # What is left is given up.
                return []
            letters = self._queue.take(MOST_AT_ONCE)
            self._in_flight = len(letters)
            return letters

    def _deliver(self, letters: list[Letter]) -> None:
        """Send letters until each has arrived or was refused, or there is no time left."""
        pause_s = SHORTEST_PAUSE_S
        while letters:
            try:
                self._send(letters)
                continue
            except (redis.RedisError, RedisClusterException, OSError) as error:
                self.last_error = _COMMAND.sub("", str(error))
            with self._changed:
                left_s = self._deadline_s - time.monotonic()
                if self._is_closing and left_s <= 0:
                    break
                self._changed.wait(min(pause_s, left_s) if self._is_closing else pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        self._give_up(letters)

    def _give_up(self, letters: list[Letter]) -> None:
        self.lost += len(letters)
        for letter in letters:
            _finish(letter, ServiceError(f"a publication did not arrive ({self.last_error})"))

    def _send(self, letters: list[Letter]) -> None:
        """Send letters, and remove those that have arrived or were refused from the list."""
        for shard in dict.fromkeys(letter.shard for letter in letters):
            together = [letter for letter in letters if letter.shard == shard]
            # All or none: a later publication that arrived would make one that did not arrive an old one.
            with self._client.pipeline(transaction=True) as pipeline:
                for letter in together:
                    pipeline.xadd(shard.log, {PAYLOAD: letter.data}, nomkstream=True)
                try:
                    answers: list[Any] = pipeline.execute()
                except redis.exceptions.NoPermissionError:
                    self._refuse(together, "not permitted; use the file 'writer' of the job's place")
                    answers = []
            if any(answer is None for answer in answers):
                self._refuse(together, f"namespace {shard.namespace} is not served (any more)")
            elif answers:
                self.delivered += len(together)
                for letter in together:
                    _finish(letter)
            letters[:] = [letter for letter in letters if letter.shard != shard]

    def _refuse(self, letters: list[Letter], why: str) -> None:
        self.lost += len(letters)
        self.last_error = why
        for letter in letters:
            _finish(letter, ServiceError(f"a publication was refused: {why}"))


def _finish(letter: Letter, error: ChimbukoError | None = None) -> None:
    for arrival in letter.arrivals:
        if error is None:
            arrival.set_result(None)
        else:
            arrival.set_exception(error)
