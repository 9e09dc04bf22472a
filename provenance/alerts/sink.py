"""Sink of alerts: what takes each of them, as JSON.

Addresses and commands may hold secrets: no message of a sink repeats them.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

TIMEOUT_S = 10.0
"""Maximum time of one try to hand over an alert."""


class SinkError(Exception):
    """A sink did not take an alert."""


class Sink(msgspec.Struct, frozen=True):
    """Receiver of alerts."""

    name: str
    """Name of the receiver in messages to the user."""
    take: Callable[[bytes], None]
    """Function that takes one alert, as JSON, or raises ``SinkError``."""


class SinkKind(msgspec.Struct, frozen=True):
    """One kind of sink: how the user names one, and how it is opened."""

    option: str
    """Option of the command line, as ``--alert-url``."""
    variable: str
    """Environment variable that names one, too."""
    metavar: str
    help: str
    open: Callable[[str], Sink]
    """Returns the sink with this name; raises ``ConfigError`` where it can never work."""

    @property
    def parameter(self) -> str:
        """Name of the option as a parameter in Python."""
        return self.option.lstrip("-").replace("-", "_")
