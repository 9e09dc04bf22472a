"""A service of namespaces, as its processes run it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from chimbuko.observe.namespaces.exchange.keys import STANDING
from chimbuko.observe.namespaces.service.folder import ServiceFolder, ServiceSettings
from chimbuko.observe.namespaces.service.serving import ServeOptions, Serving
from tests.patience import PATIENCE_S


class Served:
    """A service in a folder, which is looked after when a test says so."""

    def __init__(self, path: Path, options: ServeOptions) -> None:
        self.folder = ServiceFolder(path)
        self.problems: list[str] = []
        self.folder.make(options.settings)
        self.serving = Serving(self.folder, options, self.problems)
        self.serving.start()

    @property
    def path(self) -> Path:
        """Of its folder."""
        return self.folder.path

    def admit(self, job: str) -> Path:
        """Admit a job; returns its folder of places."""
        self.folder.admit(job)
        self.serving.look_after()
        return self.path / "jobs" / job

    def until(self, condition: Callable[[], bool]) -> None:
        """Look after the service until something is so."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline_s, self.logs()
            self.serving.look_after()
            time.sleep(0.02)

    def logs(self) -> str:
        """What its processes had to say."""
        return "".join(path.read_text() for path in (self.path / "logs").glob("*-*.log"))


@contextmanager
def served(
    path: Path,
    instances: int = 1,
    namespaces: tuple[str, ...] = STANDING[:2],
    keep_bytes: int = 1 << 20,
    **more: Any,
) -> Iterator[Served]:
    """A service with these settings."""
    settings = ServiceSettings("test", namespaces, instances, keep_bytes)
    options = replace(ServeOptions(settings), **more)
    service = Served(path, options)
    try:
        yield service
    finally:
        service.serving.stop()
    assert service.problems == []
