"""Errors of users: one line that says what went wrong, where, and what to do."""

from __future__ import annotations


class ChimbukoError(Exception):
    """Root of all errors that the command line shows as one line.

    Each class has its own exit code; ``docs/reference/exit-codes.md`` lists them.
    """

    exit_code = 1


class ConfigError(ChimbukoError):
    """An option, file or folder given by the user cannot be used."""

    exit_code = 2


class TraceFormatError(ChimbukoError):
    """A trace stream is missing, unreadable, or not in TAU's layout."""

    exit_code = 3


class ServiceError(ChimbukoError):
    """A service of ours (broker, server, dashboard) did not start or cannot be reached."""

    exit_code = 4


class StoreError(ChimbukoError):
    """The provenance store cannot be opened, read or written."""

    exit_code = 5


class ObservationError(ChimbukoError):
    """An observation cannot be kept or sent: its key, its type or its size."""

    exit_code = 7
