"""Errors of this package: all are a ``ChimbukoError``, whose text is one line for the user."""

from chimbuko.core.errors import (
    ChimbukoError,
    ConfigError,
    ObservationError,
    ServiceError,
    StoreError,
    TraceFormatError,
)

__all__ = [
    "ChimbukoError",
    "ConfigError",
    "ObservationError",
    "ServiceError",
    "StoreError",
    "TraceFormatError",
]
