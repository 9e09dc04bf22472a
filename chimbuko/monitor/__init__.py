"""The monitor of a node: what its processes, threads and cores do, period by period, without a trace.

May import monitor.service.
``start`` watches the program that calls it; ``chimbuko monitor`` watches any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimbuko.monitor.service.inprocess import Monitor, start

__all__ = ["Monitor", "start"]


def __getattr__(name: str) -> Any:
    """Return a name that a Python program asks for; its module is loaded at its first use: agents and
    services need 30 modules less.
    """
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chimbuko.monitor.service import inprocess

    return getattr(inprocess, name)
