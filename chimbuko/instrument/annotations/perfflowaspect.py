"""Module that programs under ``chimbuko trace`` import as ``perfflowaspect.aspect``."""

from __future__ import annotations

import sys

from chimbuko.core.errors import ConfigError
from chimbuko.instrument.annotations import aspects
from chimbuko.instrument.annotations.aspects import async_event, sync_event

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["async_event", "critical_path", "sync_event"]


def critical_path(pointcut: str | Callable[..., Any] = "around", scope: str = "", flow: str = "") -> Any:
    """Annotate a function; a wrong annotation does not stop the program."""
    try:
        return aspects.critical_path(pointcut, scope, flow)
    except ConfigError as error:
        print(f"chimbuko: {error}; the function is not annotated", file=sys.stderr)
        return lambda function: function
