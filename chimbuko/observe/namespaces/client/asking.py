"""Requests for analyses that workers run, and their progress, which is published.

What Celery's workers take is at the broker of the service, and has keys of the job.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import redis

from chimbuko.core.errors import ServiceError
from chimbuko.observe.namespaces.exchange.jobaddress import JobAddress
from chimbuko.observe.namespaces.exchange.keys import asked_prefix
from chimbuko.observe.namespaces.exchange.paths import Path, parse_path

if TYPE_CHECKING:
    from celery import Celery

TASK = "chimbuko.analyse"
"""Name of the one Celery task, which runs an analysis and publishes its results."""
QUEUE = "analyses"
GROUP = "analyses"
"""Group, below the group of an analysis' results, in which its progress is published."""


class Progress(StrEnum):
    """Progress of an analysis that a worker was asked for."""

    SCHEDULED = "SCHEDULED"
    """The analysis waits for a worker."""
    EXECUTING = "EXECUTING"
    DONE = "DONE"
    """All results are published."""
    FAILED = "FAILED"


def state_path(into: str) -> Path:
    """Return the path of the group with the progress of the analysis whose results are published in
    ``into``.
    """
    return (GROUP, *parse_path(into))


def analyses_app(url: str, place: JobAddress, **settings: Any) -> Celery:
    """Return the Celery application for the analyses of a job, with ``settings`` of Celery, at a broker with
    these rights.
    """
    # Celery is loaded here: publishing should not wait for it.
    from chimbuko.runtime.protocol.celeryapp import celery_app

    prefix = asked_prefix(place.service, place.job)
    return celery_app("chimbuko.observe.namespaces", url, prefix, QUEUE, task_ignore_result=True, **settings)


def ask_worker(place: JobAddress, namespace: str, analysis: str, into: str) -> None:
    """Ask for an analysis, which any worker of the job may take.

    Raises
    ------
    ServiceError
        The broker cannot be asked, or is none for Celery.
    """
    from kombu.exceptions import OperationalError
    from redis.cluster import RedisCluster

    with place.connect() as client:
        if isinstance(client, RedisCluster):
            raise ServiceError("Celery cannot speak with a Redis Cluster: let no worker do this analysis")
    asked = {"namespace": namespace, "analysis": analysis, "into": into}
    with analyses_app(place.url, place) as app:
        try:
            app.send_task(TASK, kwargs=asked, retry=False)
        except (OperationalError, redis.RedisError) as error:
            raise ServiceError(f"analysis {analysis}: no worker can be asked for it ({error})") from error
