"""What alerts are handed to, a webhook or a command: in threads of their own, so that nobody waits for it.

Addresses and commands may hold secrets: nothing here repeats them.
"""

from __future__ import annotations

import os
import queue
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from chimbuko import __version__
from chimbuko.core.errors import ConfigError

URL_VARIABLE = "CHIMBUKO_ALERT_URL"
COMMAND_VARIABLE = "CHIMBUKO_ALERT_COMMAND"
"""Environment variables with the webhook's address and the command."""
MOST_WAITING = 100
"""Alerts; more are left out while a hook does not take them."""
TIMEOUT_S = 10.0
"""Of one try."""
PAUSES_S = (1.0, 4.0, 16.0)
"""Before each further try."""
STOP_S = 5.0
"""At the end of the run: how long to go on handing over what waits."""

Deliver = Callable[[bytes], None]
"""Hands over one alert, as JSON, or raises ``HookError``."""


class HookError(Exception):
    """A webhook or command did not take an alert."""


def hooks_of(environment: Mapping[str, str]) -> dict[str, Deliver]:
    """Webhook and command that an environment names, by what they are called.

    Raises
    ------
    ConfigError
        One of them can never work.
    """
    hooks: dict[str, Deliver] = {}
    if url := environment.get(URL_VARIABLE):
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
            raise ConfigError("the address for alerts is not usable; give one like https://HOST/PATH")
        hooks[f"webhook at {parts.hostname}"] = lambda body: _post(url, body)
    if command := environment.get(COMMAND_VARIABLE):
        try:
            words = shlex.split(command)
        except ValueError as error:
            raise ConfigError(f"the command for alerts is not usable ({error})") from None
        hooks["command for alerts"] = lambda body: _run(words, body)
    return hooks


def _post(url: str, body: bytes) -> None:
    # Loaded here: most runs alert nobody, and would pay 5 ms for a client of the web.
    import urllib.error
    import urllib.request

    headers = {"Content-Type": "application/json", "User-Agent": f"chimbuko/{__version__}"}
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError as error:
        raise HookError(f"it answers {error.code}") from None
    except urllib.error.URLError as error:
        raise HookError(getattr(error.reason, "strerror", None) or type(error.reason).__name__) from None
    except Exception as error:
        # What it says may hold the address.
        raise HookError(type(error).__name__) from None


def _run(words: list[str], body: bytes) -> None:
    # Passwords of broker and store are not its business.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CHIMBUKO_")}
    try:
        done = subprocess.run(
            words,
            input=body,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise HookError(f"it took more than {TIMEOUT_S:.0f} s and was ended") from None
    except OSError as error:
        raise HookError(error.strerror or type(error).__name__) from None
    if done.returncode:
        raise HookError(f"exit code {done.returncode}")


class AlertSender:
    """Hands alerts over one after the other, and tries again where that fails.

    Parameters
    ----------
    name
        What the hook is called.
    report
        Takes a line for the user: once that alerts are not taken, and once that they are again.
    """

    def __init__(self, name: str, deliver: Deliver, report: Callable[[str], None]) -> None:
        self._name = name
        self._deliver = deliver
        self._report = report
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._is_stopping = threading.Event()
        self._is_failing = False
        self._stop_at_s = 0.0
        self._lost = 0
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def send(self, body: bytes) -> None:
        """Hand an alert over soon; it is left out where too many wait already."""
        try:
            self._waiting.put_nowait(body)
        except queue.Full:
            self._lost += 1

    def stop(self) -> None:
        """Hand over what waits, if that does not take long."""
        self._stop_at_s = time.monotonic() + STOP_S
        self._is_stopping.set()
        # Where it is full there is no need to wake the thread.
        if not self._waiting.full():
            self._waiting.put_nowait(None)
        self._thread.join(STOP_S)
        lost = self._lost + self._waiting.qsize()
        if lost:
            self._report(f"{lost} alerts were not taken by the {self._name}")

    def _work(self) -> None:
        while not (self._is_stopping.is_set() and (self._waiting.empty() or self._is_late)):
            body = self._waiting.get()
            if body is not None and not self._is_delivered(body):
                self._lost += 1

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self._stop_at_s

    def _is_delivered(self, body: bytes) -> bool:
        for pause_s in (*PAUSES_S, 0.0):
            try:
                self._deliver(body)
            except HookError as error:
                if not self._is_failing:
                    self._report(f"the {self._name} takes no alerts: {error}; trying again")
                self._is_failing = True
                if self._is_stopping.wait(pause_s):
                    return False
            else:
                if self._is_failing:
                    self._report(f"the {self._name} takes alerts again")
                self._is_failing = False
                return True
        return False
