"""Reads traces of PyTorch's profiler, which Kineto writes: trace events with meanings of their own.

A file is of one process, with the threads and GPU streams of it; ``distributedInfo`` has its rank.
"""

from __future__ import annotations

import re
from typing import Any, Final

from chimbuko.formats.events import Catalogue
from chimbuko.formats.readers import chrome

_STEP: Final = re.compile(r"ProfilerStep#\d+")


class Reader(chrome.Reader):
    """Reads the trace of one process."""

    def __init__(self, catalogue: Catalogue, source: int, name: str) -> None:
        super().__init__(catalogue, source, name)

    def process_key(self, pid: Any) -> object:
        """All of it is of one process."""
        return self._source, "PyTorch"

    def function_name(self, name: str, category: str) -> str:
        """Steps are calls of one function."""
        return _STEP.sub("ProfilerStep", name)
