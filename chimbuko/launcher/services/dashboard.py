"""The dashboard of a run: it has its address from the start, kept in a file, and a process from the first
visit on.

So a run that nobody looks at pays nothing for it; one that was killed comes back at its port, with its token.
"""

from __future__ import annotations

import os
import pwd
import select
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlsplit

from chimbuko.runtime.process.failures import words_of
from chimbuko.runtime.process.lifetime import Sacrifice
from chimbuko.runtime.process.service import Service
from chimbuko.runtime.process.starting import fork_then_load
from chimbuko.runtime.process.supervisor import ServiceGroup
from chimbuko.runtime.protocol.brokerplace import BROKER_VARIABLE, LOOPBACK
from chimbuko.runtime.runs.directory import RunDirectory, write_secret
from chimbuko.viz.http.listening import KEY_VARIABLE, TOKEN_VARIABLE, Front


class Dashboard:
    """Listens for visitors, and starts the process that answers them.

    Parameters
    ----------
    port
        0 for any that is free.
    front
        Where browsers reach it.
    processes
        That serve it.
    problems
        Gets one line for each thing that did not go as it should.

    Raises
    ------
    ChimbukoError
        The port is taken, or what was given for browsers cannot be used.
    """

    def __init__(
        self,
        run: RunDirectory,
        broker_url: str,
        port: int,
        front: Front,
        processes: int,
        problems: list[str],
    ) -> None:
        self._run = run
        self._processes = processes
        self._secret = {BROKER_VARIABLE: broker_url, TOKEN_VARIABLE: front.token(run.page_token_path)}
        # The port stays ours between two of its processes: open pages need not show again who they are.
        self._secret[KEY_VARIABLE] = token_hex(32)
        self._front = front
        self._listening = front.listen(port)
        self._group = ServiceGroup(problems)

    @property
    def url(self) -> str:
        """Address with the token; empty if it is given up."""
        if self._listening.fileno() < 0:
            return ""
        port = self._listening.getsockname()[1]
        return self._front.url(port, self._secret[TOKEN_VARIABLE])

    @property
    def visitors(self) -> list[int]:
        """Descriptor that becomes readable with the first visitor; none once there is a process."""
        return [self._listening.fileno()] if self._group.is_empty and self._listening.fileno() >= 0 else []

    def look_after(self) -> list[str]:
        """Start it for the first visitor, and again where it ended; one line for what went wrong."""
        if self.visitors and select.select(self.visitors, [], [], 0.0)[0]:
            self._group.add(self._service(), can_go_on=True, is_starting=True)
        lines = self._group.look_after()
        if self._group.is_given_up:
            # A page would wait at it for ever.
            self._listening.close()
        return lines

    def stop(self, timeout_s: float) -> None:
        """End it, and turn visitors away."""
        self._group.stop(timeout_s)
        self._listening.close()

    def _service(self) -> Service:
        words = ["--run-dir", str(self._run.path), "--listening", str(self._listening.fileno())]
        words += ["--processes", str(self._processes), *self._front.words()]
        return Service(
            "dashboard",
            "chimbuko.viz",
            words,
            self._secret,
            self._run.logs,
            (self._listening.fileno(),),
            Sacrifice.DASHBOARD,
            # To load a web server takes 0.4 s, in which the launcher would look after nothing.
            start=fork_then_load,
        )


# The file with the address of a dashboard: who has the address, and the token in it, can see the run.
#
# Only the user's own terminal gets it. The output of a job lies in files that others can often read, so
# what is printed there is where the address is.


SSH_PORT = "22"


class AddressFile:
    """Holds the address for as long as there is a dashboard; only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._page = path.with_suffix(".html")
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
            self._page.unlink(missing_ok=True)
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

    def open(self, environment: Mapping[str, str] = os.environ) -> str:
        """Have the browser of this desktop show the page; return why that cannot be, else nothing."""
        # Without a desktop it might be a browser in text, which would take the terminal from the program.
        if not any(environment.get(name) for name in ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")):
            return "there is no desktop here whose browser could show the page (DISPLAY is not set)"
        # A browser has its address on its command line, which all users of the host can read.
        leading = f'<!doctype html><meta http-equiv="refresh" content="0; url={escape(self._address)}">'
        try:
            write_secret(self._page, leading)
            words = [sys.executable, "-m", "webbrowser", self._page.absolute().as_uri()]
            silent = [(os.POSIX_SPAWN_OPEN, one, os.devnull, os.O_RDWR, 0) for one in (0, 1, 2)]
            # Nobody waits for it: the browser is the user's.
            os.posix_spawn(words[0], words, environment, file_actions=silent, setsid=True)
        except OSError as error:
            return f"the browser cannot be started: {words_of(error)}"
        return ""

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
