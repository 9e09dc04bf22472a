"""Broker, worker and folder for long questions, started with the first question."""

from __future__ import annotations

import time
from pathlib import Path

import redis
from celery import Celery
from redis.cluster import RedisCluster

from chimbuko.core.errors import ServiceError
from chimbuko.runtime.process.lifetime import Sacrifice
from chimbuko.runtime.process.nameholding import HeldFolder, is_held
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.protocol.broker import PrivateBroker, connect
from chimbuko.viz.jobs.celeryapp import jobs_app
from chimbuko.viz.jobs.messagequeue import JOBS_VARIABLE

IDLE_S = 60.0
"""Time in seconds without work after which a worker ends; the next one is there within two seconds."""
MOST_STARTS = 3
"""Most starts of a worker that ends without having answered anything."""
STOP_S = 3.0


def worker_name(folder: Path) -> str:
    """Return the name that the one worker over a folder holds, as
    ``chimbuko.runtime.process.nameholding.hold`` takes it.
    """
    return f"jobs {folder}"


class WorkerPool:
    """Broker, worker and folder for the long questions of a dashboard.

    Nothing is started before the first question: the analysis must not hurt the application. The worker is
    started by the thread that calls ``open``, and ends when that does.

    Parameters
    ----------
    url
        URL of a broker that others look after; None for a private one.
    has_worker
        Whether a worker of our own answers; else those that somebody starts at that broker.
    folder
        Folder of the jobs' folders, which workers and all processes of the dashboard share; None for a new
        one, which is gone at the end.
    logs
        Folder for the logs of worker and broker; None for ``folder``.
    """

    def __init__(
        self, url: str | None, has_worker: bool = True, folder: Path | None = None, logs: Path | None = None
    ) -> None:
        self._url = url
        self._has_worker = has_worker
        self._held_folder: HeldFolder | None = None
        self._folder = folder
        self._logs = logs
        self._broker: PrivateBroker | None = None
        self._worker: Service | None = None
        self._starts = 0
        self._app: Celery | None = None
        self._client: redis.Redis | None = None

    @property
    def has_worker(self) -> bool:
        """Whether a worker of our own answers."""
        return self._has_worker

    @property
    def folder(self) -> Path:
        """Folder that contains the jobs' folders."""
        if self._folder is None:
            self._held_folder = HeldFolder("chimbuko-jobs-")
            self._folder = self._held_folder.path
        return self._folder

    @property
    def url(self) -> str:
        """URL of the broker, once it is open."""
        assert self._url is not None
        return self._url

    @property
    def app(self) -> Celery:
        """Celery application at the broker."""
        if self._app is None:
            self._app = jobs_app(self.url)
        return self._app

    @property
    def client(self) -> redis.Redis:
        """Connection to the broker."""
        if self._client is None:
            self._client = connect(self.url)
        return self._client

    @property
    def answers(self) -> Path | None:
        """Folder that contains the jobs' folders; None if there was none yet."""
        return self._folder

    def open(self) -> None:
        """Ensure that questions are answered, by a broker and a worker that run.

        Raises
        ------
        ServiceError
            One of them does not start, or the broker is none for Celery.
        """
        if self._url is not None and isinstance(self.client, RedisCluster):
            raise ServiceError("Celery cannot speak with a Redis Cluster: give --jobs-broker a single server")
        if self._url is None or (self._broker is not None and not self._broker.is_running):
            self._start_broker()
        self.client.ping()
        if self._has_worker and not is_held(worker_name(self.folder)):
            self._start_worker()

    def has_lost_worker(self) -> bool:
        """Whether the pool's own worker has ended, so that nobody works on what was begun."""
        return self._has_worker and not is_held(worker_name(self.folder))

    def has_answered(self) -> None:
        """Note that the worker works as it should."""
        self._starts = 0

    def close(self) -> None:
        """End the processes that were started."""
        if self._worker is not None:
            self._worker.stop(0.0)
            self._wait_for_end()
        if self._client is not None:
            self._client.close()
        if self._app is not None:
            self._app.close()
        if self._broker is not None:
            self._broker.stop()
        if self._held_folder is not None:
            self._held_folder.close()

    def _wait_for_end(self) -> None:
        """Wait for the end of the worker's own process, which follows a moment later; until then it may write
        into its folder.
        """
        latest_s = time.monotonic() + STOP_S
        while is_held(worker_name(self.folder)) and time.monotonic() < latest_s:
            time.sleep(0.01)

    def _start_broker(self) -> None:
        if self._broker is None:
            self._broker = PrivateBroker((self._logs or self.folder) / "jobs-broker.log")
            self._url = self._broker.url
        if self._worker is not None:
            # Celery would look for the broker at longer and longer intervals.
            self._worker.stop(0.0)
        self._broker.start()

    def _start_worker(self) -> None:
        if self._worker is not None and self._worker.is_running:
            return
        logs = self._logs or self.folder
        if self._starts == MOST_STARTS:
            self._starts = 0
            raise ServiceError(f"The worker ends as soon as it is started; its log is {logs / 'jobs.log'}")
        self._starts += 1
        if self._worker is not None:
            self._worker.stop(0.0)
        arguments = ["--folder", str(self.folder), "--idle", str(IDLE_S)]
        if self._held_folder is not None:
            arguments.append("--sweep")
        # Celery's own titles would not tell whose worker it is.
        environment = {JOBS_VARIABLE: self.url, "NOSETPS": "1"}
        self._worker = Service(
            "jobs", "chimbuko.viz.jobs", arguments, environment, logs, sacrifice=Sacrifice.DASHBOARD
        )
