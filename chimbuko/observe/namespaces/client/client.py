"""Client of a service of namespaces, with SOMA's verbs: programs publish with it."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path as FilePath
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from chimbuko.core.errors import ConfigError, ServiceError
from chimbuko.core.files import write_atomically
from chimbuko.core.units import number_of
from chimbuko.observe.namespaces.analyses.registry import analyse
from chimbuko.observe.namespaces.client.asking import Progress, ask_worker, state_path
from chimbuko.observe.namespaces.client.outbox import Letter, Mode, Outbox, Pending
from chimbuko.observe.namespaces.exchange.jobaddress import About, JobAddress, find_address
from chimbuko.observe.namespaces.exchange.keys import PLACE_VARIABLE, Shard
from chimbuko.observe.namespaces.exchange.namespacereader import Reader
from chimbuko.observe.namespaces.exchange.paths import checked_path, format_path, parse_path
from chimbuko.observe.namespaces.exchange.texts import FORMATS
from chimbuko.observe.namespaces.exchange.tree import Change, Tree, flattened, nested
from chimbuko.observe.namespaces.exchange.wire import LARGEST_BYTES, Publication
from chimbuko.runtime.process.ranks import rank_from

if TYPE_CHECKING:
    import redis

BLOCKING_TIMEOUT_S = 30.0
CLOSE_TIMEOUT_S = 30.0
LOOK_S = 0.1
"""Time between two looks for a service that is not there yet."""


def _found(place: str | FilePath | JobAddress | None, wait_s: float) -> tuple[JobAddress, redis.Redis, About]:
    """Return the place, a connection with it, and what it says of itself, as soon as it is there."""
    latest_s = time.monotonic() + wait_s
    while True:
        try:
            found = place if isinstance(place, JobAddress) else find_address(place)
            connection = found.connect()
            try:
                return found, connection, found.about(connection)
            except BaseException:
                connection.close()
                raise
        except (ConfigError, ServiceError):
            # Only the folder of a service can be one that comes.
            named = str(place or os.environ.get(PLACE_VARIABLE, ""))
            may_come = named and "://" not in named and not isinstance(place, JobAddress)
            if not may_come or time.monotonic() >= latest_s:
                raise
        time.sleep(LOOK_S)


class Client:
    """Publisher of the observations of one program, or of one of its ranks.

    Parameters
    ----------
    place
        Folder of a service, file of a job, or URL; default that in ``CHIMBUKO_NAMESPACES``.
    rank
        Rank of this process; default that of MPI or the scheduler, or else 0. Instances of a namespace are
        assigned to ranks by turns.

    wait_s
        Longest time in seconds to wait for a service that is being started.

    Raises
    ------
    ConfigError, ServiceError
        There is no such place, or nobody answers there.
    """

    def __init__(
        self,
        place: str | FilePath | JobAddress | None = None,
        rank: int | None = None,
        wait_s: float = 0.0,
    ) -> None:
        self._rank = rank_from(os.environ) if rank is None else rank
        if self._rank < 0:
            raise ConfigError(f"rank {self._rank}: is negative; ranks begin with 0")
        self._place, connection, self._about = _found(place, wait_s)
        self._id = uuid.uuid4().hex
        self._process = os.getpid()
        self._namespaces: dict[str, Namespace] = {}
        self._outbox = Outbox(self._place, connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def create(self, name: str) -> Namespace:
        """Begin to publish in a namespace of the service (SOMA's ``create_namespace``).

        Raises
        ------
        ConfigError
            The service has no such namespace.
        """
        if name not in self._namespaces:
            shards = self._place.shards(self._about, name)
            self._namespaces[name] = Namespace(self, name, shards[self._rank % len(shards)])
        return self._namespaces[name]

    def close(self, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """Publish all commits, wait until everything has arrived, and end.

        Raises
        ------
        ServiceError
            Not all has arrived, within so many seconds or ever.
        """
        for namespace in self._namespaces.values():
            namespace._publish_committed()
        missing = self._outbox.close(timeout_s)
        if missing:
            why = f" ({self._outbox.last_error})" if self._outbox.last_error else ""
            raise ServiceError(f"{number_of(missing, 'publications')} did not arrive{why}")

    @property
    def delivered(self) -> int:
        """Number of publications that have arrived at the service."""
        return self._outbox.delivered

    @property
    def waiting(self) -> int:
        """Number of publications that have not arrived yet."""
        return self._outbox.waiting


class Namespace:
    """One namespace in which a client publishes; ``Client.create`` makes it.

    A method that publishes comes in two kinds: one waits until the service has what was published, and the
    other, ``..._async``, returns at once. What it returns can be waited for (``result()``), and need not be.
    """

    def __init__(self, client: Client, name: str, shard: Shard) -> None:
        self.name = name
        self._client = client
        self._shard = shard
        self._pending = Pending()
        self._sequence = 0

    def update(self, key: str | Sequence[str], value: object, mode: Mode | str = Mode.OVERWRITE) -> None:
        """Set a value, or append to it; a commit publishes it.

        Parameters
        ----------
        key
            Path as text (``FIELD_0/min``), or as its keys (``["FIELD_0", "min"]``).
        value
            A boolean, number, string, or array of numbers.
        mode
            ``overwrite`` or ``append``: text goes on, and numbers become an array.

        Raises
        ------
        ObservationError
            The key is none, or the value cannot be observed or is of another type than before.
        """
        path = parse_path(key) if isinstance(key, str) else checked_path(key)
        self._pending.update(path, value, _mode(mode))

    def update_all(self, values: Mapping[str, Any], mode: Mode | str = Mode.OVERWRITE) -> None:
        """Update several values, given as nested dictionaries; errors are those of ``update``."""
        for path, value in flattened(values):
            self._pending.update(path, value, _mode(mode))

    def set_publish_frequency(self, frequency: int) -> None:
        """Publish at every ``frequency``-th commit only.

        Raises
        ------
        ConfigError
            It is less than 1.
        """
        if frequency < 1:
            raise ConfigError(f"publish frequency {frequency}: is no number of commits; give 1 or more")
        self._pending.frequency = frequency

    def commit(self) -> None:
        """Mark all updates since the last commit as belonging together; at every ``frequency``-th commit they
        are published.

        Raises
        ------
        ServiceError
            It was refused, or did not arrive within 30 s; in that case it is tried further.
        """
        if self._pending.commit():
            _wait(self._publish_committed())

    def commit_async(self) -> Future[None] | None:
        """Act as the method without ``_async`` does, but without waiting; return None where there was nothing
        to publish.
        """
        return self._publish_committed() if self._pending.commit() else None

    def publish(self) -> None:
        """Commit, and publish all commits, whatever the frequency; errors are those of ``commit``."""
        _wait(self.publish_async())

    def publish_async(self) -> Future[None] | None:
        """Act as the method without ``_async`` does, but without waiting; return None where there was nothing
        to publish.
        """
        self._pending.commit()
        return self._publish_committed()

    def publish_tree(self, values: Mapping[str, Any]) -> None:
        """Publish these values at once, apart from the commits (SOMA's ``publish`` of a node)."""
        _wait(self.publish_tree_async(values))

    def publish_tree_async(self, values: Mapping[str, Any]) -> Future[None] | None:
        """Publish these values at once, apart from the commits, without waiting."""
        one = Pending()
        for path, value in flattened(values):
            one.update(path, value, Mode.OVERWRITE)
        one.commit()
        return self._send(*one.taken())

    def analyse(self, analysis: str, into: str | None = None) -> Tree:
        """Run an analysis over everything that all clients published in the namespace, and return its
        results.

        Parameters
        ----------
        into
            Group of the namespace in which it is published, too.

        Raises
        ------
        ConfigError
            There is no such analysis.
        """
        with Reader(self._client._place) as reader:
            found = analyse(analysis, reader.history(self.name))
        if into is not None and len(found):
            self.publish_tree(nested((parse_path(into) + path, leaf) for path, leaf in found))
        return found

    def analyse_async(self, analysis: str, into: str) -> None:
        """Ask a worker of the job for an analysis that takes long (``chimbuko namespaces work``).

        Its results are published in the group ``into`` of the namespace. Its progress is published in
        ``analyses/INTO``, see ``analysis_progress``. Where no worker is there it waits for one.

        Raises
        ------
        ServiceError
            No worker can be asked.
        """
        report(self, analysis, into, Progress.SCHEDULED)
        try:
            ask_worker(self._client._place, self.name, analysis, into)
        except ServiceError as error:
            report(self, analysis, into, Progress.FAILED, str(error))
            raise

    def analysis_progress(self, into: str) -> tuple[Progress, str] | None:
        """Return the progress of the analysis whose results are published in a group, and, if it has failed,
        the reason; None if no worker was asked for one.
        """
        with Reader(self._client._place) as reader:
            found = reader.tree(self.name, format_path(state_path(into)))
        state, reason = (found.get((*state_path(into), key)) for key in ("state", "reason"))
        return (Progress(str(state)), str(reason or "")) if state is not None else None

    def write(self, file: str | FilePath, form: str = next(iter(FORMATS))) -> None:
        """Write the state of the namespace, over all clients, to a file.

        Parameters
        ----------
        form
            ``yaml``, ``json``, ``conduit_json`` or ``conduit_base64_json``.

        Raises
        ------
        ConfigError
            There is no such form, or the file cannot be written.
        """
        if form not in FORMATS:
            raise ConfigError(f"{form!r}: no format; there are {', '.join(FORMATS)}")
        with Reader(self._client._place) as reader:
            text = FORMATS[form](reader.tree(self.name))
        try:
            write_atomically(FilePath(file), text.encode())
        except OSError as error:
            raise ConfigError(f"{file}: cannot be written ({error.strerror})") from error

    def _publish_committed(self) -> Future[None] | None:
        return self._send(*self._pending.taken())

    def _send(self, change: Change, commits: int) -> Future[None] | None:
        """Publish a change, as several publications where it is large, and return the future of the
        last one.
        """
        if os.getpid() != self._client._process:
            raise ServiceError("this client belongs to the process that was forked; make one in each process")
        arrival = None
        for part in change.parts(LARGEST_BYTES // 2):
            self._sequence += 1
            publication = Publication(
                self._client._id, self._client._rank, self._sequence, time.time_ns() // 1000, commits, part
            )
            arrival = self._client._outbox.send(Letter(self._shard, publication))
            # They count once.
            commits = 0
        return arrival


def report(namespace: Namespace, analysis: str, into: str, progress: Progress, reason: str = "") -> None:
    """Publish the progress of an analysis that a worker was asked for."""
    state = {"analysis": analysis, "state": progress.value, "reason": reason}
    namespace.publish_tree(nested(((*state_path(into), key), value) for key, value in state.items()))


def _mode(mode: Mode | str) -> Mode:
    try:
        return Mode(mode)
    except ValueError:
        raise ConfigError(f"{mode!r}: an update is 'overwrite' or 'append'") from None


def _wait(arrival: Future[None] | None) -> None:
    if arrival is None:
        return
    try:
        arrival.result(BLOCKING_TIMEOUT_S)
    except FutureTimeout:
        raise ServiceError(
            f"a publication did not arrive within {BLOCKING_TIMEOUT_S:.0f} s; it is tried further"
        ) from None
