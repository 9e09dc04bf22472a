"""Reads a file that another program is writing, as far as what is there will stay."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from chimbuko.core.errors import TraceFormatError

MOST_AT_ONCE: Final = 4 << 20
_SPACE: Final = b" \t\r\n"


class GrowingFile:
    """What has come since the last look.

    A writer that keeps its file whole ends it by brackets, and writes the next events over them. So the
    brackets and the white space at the end are taken only when something follows them, or at the very end.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0

    def more(self, is_all: bool = False) -> bytes:
        """The next bytes; with ``is_all`` also what closes the file.

        Raises
        ------
        TraceFormatError
            It cannot be read, or is shorter than what was read of it.
        """
        try:
            with self.path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._at:
                    raise TraceFormatError(f"{self.path}: it was written anew; what came before is taken")
                file.seek(self._at)
                data = file.read(MOST_AT_ONCE)
        except OSError as error:
            raise TraceFormatError(f"{self.path}: cannot be read ({error.strerror})") from error
        if not is_all and self._at + len(data) == size:
            data = without_end(data)
        self._at += len(data)
        return data


def without_end(data: bytes) -> bytes:
    """Bytes without what may close a trace in JSON: ``]`` or ``]}``, and white space."""
    kept = data.rstrip(_SPACE)
    if kept.endswith(b"}") and kept[:-1].rstrip(_SPACE).endswith(b"]"):
        kept = kept[:-1].rstrip(_SPACE)
    return kept[:-1].rstrip(_SPACE) if kept.endswith(b"]") else kept
