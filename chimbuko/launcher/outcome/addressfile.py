"""The file with the address of a dashboard: who has the address, and the token in it, can see the run.

Only the user's own terminal gets it. The output of a job lies in files that others can often read, so what is
printed there is where the address is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from chimbuko.runs.directory import write_secret


class AddressFile:
    """Holds the address for as long as there is a dashboard; only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._address = ""

    def keep(self, address: str) -> None:
        """Let it hold this address, or be gone where that is empty.

        Raises
        ------
        OSError
            It cannot be written.
        """
        if address == self._address:
            return
        if address:
            write_secret(self._path, address)
        else:
            self._path.unlink(missing_ok=True)
        self._address = address

    def remove(self) -> None:
        """There is no dashboard any more."""
        with suppress(OSError):
            self.keep("")

    def words_for(self, stream: int) -> str:
        """The address where the file descriptor ``stream`` is a terminal, elsewhere where to find it."""
        return self._address if os.isatty(stream) else f"the address is in {self._path}"
