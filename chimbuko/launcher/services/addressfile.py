"""The file with the address of a dashboard: who has the address, and the token in it, can see the run.

Only the user's own terminal gets it. The output of a job lies in files that others can often read, so what is
printed there is where the address is.
"""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from chimbuko.runtime.protocol.brokerplace import LOOPBACK
from chimbuko.runtime.runs.directory import write_secret

SSH_PORT = "22"


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
        """Remove the file, as the dashboard has ended."""
        with suppress(OSError):
            self.keep("")

    def words_for(self, stream: int) -> str:
        """Return the address where the file descriptor ``stream`` is a terminal, elsewhere where to
        find it.
        """
        return self._address if os.isatty(stream) else f"the address is in {self._path}"

    def tunnel(self, environment: Mapping[str, str] = os.environ) -> str:
        """Return the command by which a browser on the computer where the user sits reaches the address.

        Empty where it need not, or cannot be known: sshd notes in ``SSH_CONNECTION`` under which address and
        port of this host it was reached, and a job may have got that from another host.
        """
        parts = urlsplit(self._address)
        reached = environment.get("SSH_CONNECTION", "").split()
        if parts.hostname != LOOPBACK or len(reached) != 4 or not _is_ours(reached[2]):
            return ""
        port = "" if reached[3] == SSH_PORT else f"-p {reached[3]} "
        user = pwd.getpwuid(os.geteuid()).pw_name
        return f"ssh -N {port}-L {parts.port}:{LOOPBACK}:{parts.port} {user}@{reached[2]}"


def _is_ours(address: str) -> bool:
    """Whether an interface of this host has the address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((address, 0))
        return True
    return False
