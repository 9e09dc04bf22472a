"""A service of namespaces for the benchmarks."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from chimbuko.core.errors import ChimbukoError
from chimbuko.observe.namespaces.exchange.namespacereader import Reader

START_S = 60.0


@contextmanager
def service(folder: Path, address: str = "127.0.0.1", options: Sequence[str] = ()) -> Iterator[int]:
    """A service in a folder, for as long as it is needed; gives the number of its process."""
    words = [
        sys.executable,
        "-m",
        "chimbuko",
        "namespaces",
        "serve",
        str(folder),
        "--bind",
        address,
        *options,
    ]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline_s = time.monotonic() + START_S
            while not is_served(folder):
                if process.poll() is not None or time.monotonic() > deadline_s:
                    process.kill()
                    raise SystemExit(f"no service: {process.communicate()[1]}")
                time.sleep(0.1)
            yield process.pid
        finally:
            process.terminate()


def is_served(folder: Path) -> bool:
    """Whether the service can be used."""
    try:
        with Reader(folder) as reader:
            return bool(reader.counts("application"))
    except ChimbukoError:
        return False
