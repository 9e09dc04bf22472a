"""Celery over a broker of ours: applications that each work off one queue."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from celery import Celery


def celery_app(name: str, url: str, prefix: str, queue: str, **settings: Any) -> Celery:
    """Make an application whose workers take tasks from one queue when they can begin with them.

    Other tasks stay in the queue, and so outlive the worker.

    Parameters
    ----------
    prefix
        Beginning of all keys at the broker.
    settings
        Further settings of Celery.
    """
    app = Celery(name, broker=celery_url(url), set_as_current=False)
    app.conf.update(
        broker_transport_options={"global_keyprefix": prefix},
        task_default_queue=queue,
        task_serializer="json",
        accept_content=["json"],
        worker_concurrency=1,
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        # Workers answer no remote control, which would have keys of its own.
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        redis_socket_timeout=5,
        redis_socket_connect_timeout=5,
    )
    app.conf.update(**settings)
    return app


def celery_url(url: str) -> str:
    """Return the URL of a broker as Celery takes it: it has a scheme of its own for sockets, and over TLS it
    refuses to choose whether to check certificates, which all other clients there do.
    """
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return "redis+socket" + url.removeprefix("unix")
    if parts.scheme != "rediss" or "ssl_cert_reqs" in parse_qs(parts.query):
        return url
    return url + ("&" if parts.query else "?") + "ssl_cert_reqs=required"
