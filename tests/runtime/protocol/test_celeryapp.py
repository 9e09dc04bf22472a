"""Workers at a broker that others may write to: what they take from there is data, and never code."""

from __future__ import annotations

import os
import pickle
import threading
from pathlib import Path

from celery.contrib.testing.worker import start_worker

from chimbuko.runtime.protocol.broker import PrivateBroker
from chimbuko.runtime.protocol.celeryapp import celery_app
from tests.patience import PATIENCE_S


class Harm:
    """What makes a folder where it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self._folder),)


def test_a_worker_unpickles_nothing_and_goes_on(tmp_path: Path) -> None:
    asked, harm = threading.Event(), tmp_path / "harm"
    with PrivateBroker(tmp_path / "broker.log") as broker:
        app = celery_app("tested", broker.url, "prefix.", "queue", task_ignore_result=True)

        @app.task(name="ask")  # type: ignore[untyped-decorator]
        def ask(what: str) -> None:
            asked.set()

        with app.connection_for_write() as connection, connection.Producer() as producer:
            producer.publish(
                pickle.dumps([[Harm(harm)], {}, {}]),
                routing_key="queue",
                content_type="application/x-python-serialize",
                content_encoding="binary",
                headers={"task": "ask", "id": "1", "lang": "py"},
            )
        ask.delay("politely")
        with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=PATIENCE_S):
            assert asked.wait(PATIENCE_S)
    assert not harm.exists()
