"""Command that reads alerts on its standard input."""

from __future__ import annotations

import os
import shlex
import subprocess

from chimbuko.core.errors import ConfigError
from chimbuko.provenance.alerts.sink import TIMEOUT_S, Sink, SinkError, SinkKind

VARIABLE = "CHIMBUKO_ALERT_COMMAND"


def opened(command: str) -> Sink:
    """Return the sink that runs a command for each alert."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigError(f"the command for alerts is not usable ({error})") from None
    return Sink("command for alerts", lambda body: _run(words, body))


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
        raise SinkError(f"it took more than {TIMEOUT_S:.0f} s and was ended") from None
    except OSError as error:
        raise SinkError(error.strerror or type(error).__name__) from None
    if done.returncode:
        raise SinkError(f"exit code {done.returncode}")


COMMAND = SinkKind(
    option="--alert-command",
    variable=VARIABLE,
    metavar="COMMAND",
    help=f"Command that reads alerts on its standard input. Also set by {VARIABLE}.",
    open=opened,
)
