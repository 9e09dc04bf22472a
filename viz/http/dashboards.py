"""Dashboard of one run with everything behind it, from its start to its end."""

from __future__ import annotations

import hashlib

from chimbuko.provenance.query.run import open_run
from chimbuko.runtime.runs.directory import RunDirectory
from chimbuko.viz.http.app import create_app
from chimbuko.viz.http.events import Events
from chimbuko.viz.jobs.messagequeue import EVENTS
from chimbuko.viz.jobs.queue import JobQueue
from chimbuko.viz.jobs.workerpool import WorkerPool
from chimbuko.viz.live.feed import Feed


class Dashboard:
    """Open dashboard of a run.

    Parameters
    ----------
    token, hosts, is_alone
        As in ``create_app``.
    broker_url
        URL of the run's broker; None to follow its store alone.
    worker_pool
        Pool that answers long questions; None for a worker of its own at the run's broker, or a private one.

    Raises
    ------
    ChimbukoError
        The run or its store cannot be read.
    """

    def __init__(
        self,
        run: RunDirectory,
        token: str,
        broker_url: str | None = None,
        hosts: frozenset[str] = frozenset(),
        worker_pool: WorkerPool | None = None,
        is_alone: bool = True,
    ) -> None:
        self.run = run
        self._provenance = open_run(run)
        self._feed = Feed(run, self._provenance, broker_url)
        channel = f"chimbuko-{hashlib.sha256(f'channel {token}'.encode()).hexdigest()[:16]}"
        pool = worker_pool or WorkerPool(None, logs=run.logs if broker_url else None)
        self._queue = JobQueue(run.path, pool, channel)
        self.app = create_app(
            self._provenance,
            run.read_info(),
            self._feed,
            token,
            hosts,
            queue=self._queue,
            is_alone=is_alone,
        )

    @property
    def events(self) -> Events:
        """Link to the dashboard's pages."""
        events: Events = self.app.extensions[EVENTS]
        return events

    def start(self) -> None:
        """Begin to follow the run, and to accept long questions."""
        self._feed.start()
        self._queue.start()

    def stop(self) -> None:
        """Accept no more long questions, and send pages the last updates; the state of the run stays
        known.
        """
        self._queue.stop()
        self._feed.stop()

    def close(self) -> None:
        """Close the store."""
        self._provenance.close()
