"""Readers of recorded streams: this process, or forks of it that share the streams."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection, Pipe, wait
from typing import Protocol

import msgspec

from chimbuko.ad.analysis.streamanalysis import StreamIdentity
from chimbuko.ad.handoff.spool import SpoolFrame
from chimbuko.core.config import AnalysisConfig
from chimbuko.core.errors import ServiceError
from chimbuko.launcher.offline.lockstepstream import (
    EpochClosed,
    LockstepStream,
    Put,
    RecordedFile,
    StreamModel,
)
from chimbuko.runtime.process.lifetime import Sacrifice, die_with_parent, oom_score, set_oom_score
from chimbuko.runtime.process.signals import END, StopSignal
from chimbuko.runtime.process.starting import become_fork, end_fork, signals_wait

BEAT_S = 5.0
"""Time between two signs of life, in seconds."""
Due = Mapping[str, StreamModel | None]
"""Streams that go on, by their keys, each with a newer model, if there is one."""


class Heart:
    """Signs of life, given now and then.

    Parameters
    ----------
    give
        Gives a sign of life.
    """

    def __init__(self, give: Callable[[], None]) -> None:
        self._give = give
        self._beaten_s = time.monotonic()

    def __call__(self) -> None:
        """Give a sign of life where the last one was some time ago."""
        now_s = time.monotonic()
        if now_s - self._beaten_s >= BEAT_S:
            self._beaten_s = now_s
            self._give()


class ToRead(msgspec.Struct, frozen=True):
    """A stream to be read."""

    identity: StreamIdentity
    file: RecordedFile


class Readers(Protocol):
    """Processes that read streams, or this one."""

    @property
    def pids(self) -> Sequence[int]:
        """Ids of all processes, this one included."""
        ...

    def advance(self, due: Due) -> Iterator[EpochClosed]:
        """Yield what the streams that are due bring when they close their epochs."""
        ...

    def stop(self) -> None:
        """Have all streams left after the step that they are at."""
        ...


class OwnReader:
    """Reader of all traces in this process."""

    def __init__(
        self, streams: Sequence[ToRead], config: AnalysisConfig, put: Put, should_stop: Callable[[], bool]
    ) -> None:
        made = [LockstepStream(one.identity, one.file, config, put, should_stop) for one in streams]
        self._streams = {stream.key: stream for stream in made}
        self.pids = [os.getpid()]

    def advance(self, due: Due) -> Iterator[EpochClosed]:
        """See ``Readers``."""
        for key, model in due.items():
            yield self._streams[key].advance(model)

    def stop(self) -> None:
        """Do nothing, as the signal that ends this process stops the reader, too."""


class ForkedReaders:
    """Forks of this process, which has no threads, each with a share of the streams.

    Parameters
    ----------
    beat
        Called when a reader says that it is at work.
    count
        Number of forks; no more than there are streams.

    Raises
    ------
    OSError
        They cannot be started.
    """

    def __init__(
        self,
        streams: Sequence[ToRead],
        config: AnalysisConfig,
        put: Put,
        beat: Callable[[], None],
        count: int,
    ) -> None:
        self._put = put
        self._beat = beat
        self._links: dict[str, Connection] = {}
        self.pids = [os.getpid()]
        for index in range(count):
            share = streams[index::count]
            ours, its = Pipe()
            self.pids.append(_fork(its, partial(_serve, its, share, config)))
            its.close()
            self._links |= {f"{one.identity.program}:{one.identity.rank}": ours for one in share}

    def advance(self, due: Due) -> Iterator[EpochClosed]:
        """See ``Readers``.

        Raises
        ------
        ServiceError
            One of the readers has died.
        """
        asked: dict[Connection, dict[str, StreamModel | None]] = {}
        for key, model in due.items():
            asked.setdefault(self._links[key], {})[key] = model
        with _reader_lives():
            for link, of_link in asked.items():
                link.send(of_link)
        left = len(due)
        while left:
            for ready in wait(list(asked)):
                assert isinstance(ready, Connection), "only readers are waited for"
                with _reader_lives():
                    message: EpochClosed | tuple[str, SpoolFrame] | None = ready.recv()
                if message is None:
                    self._beat()
                elif isinstance(message, EpochClosed):
                    left -= 1
                    yield message
                else:
                    self._put(*message)

    def stop(self) -> None:
        """See ``Readers``."""
        for pid in self.pids[1:]:
            os.kill(pid, END)


@contextmanager
def _reader_lives() -> Iterator[None]:
    """Speak with a reader; raises ``ServiceError`` where it has died."""
    try:
        yield
    except (EOFError, OSError) as error:
        raise ServiceError("a reader of the trace has died") from error


def _fork(link: Connection, work: Callable[[], None]) -> int:
    """Start a fork that keeps one end of a pipe; return its process id."""
    parent = os.getpid()
    with signals_wait() as blocked:
        pid = os.fork()
        if pid:
            return pid
        become_fork("chimbuko.launcher.offline reader", 0, 2, 2, (link.fileno(),))
        set_oom_score(oom_score(Sacrifice.READER))
        # It has nothing to leave in order, and may hang in a damaged file.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        end_fork(work)


def _serve(link: Connection, streams: Sequence[ToRead], config: AnalysisConfig) -> None:
    """Read the streams of one share as they are due, until nobody asks any more."""
    stop = StopSignal()
    beat = Heart(lambda: link.send(None))

    def should_stop() -> bool:
        beat()
        return stop()

    reader = OwnReader(streams, config, lambda key, frame: link.send((key, frame)), should_stop)
    while True:
        try:
            due: Due = link.recv()
        except EOFError:
            return
        for closed in reader.advance(due):
            link.send(closed)
