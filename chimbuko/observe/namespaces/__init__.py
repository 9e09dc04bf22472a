"""Observation namespaces: values that programs publish of themselves, under hierarchical keys.

May import observe.namespaces.client and observe.namespaces.exchange.
``Client`` publishes, ``Reader`` reads; ``chimbuko namespaces`` serves both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimbuko.observe.namespaces.client.client import Client
    from chimbuko.observe.namespaces.exchange.namespacereader import Observation, Reader

__all__ = ["Client", "Observation", "Reader"]


def __getattr__(name: str) -> Any:
    """Return a name that a Python program asks for; its module is loaded at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chimbuko.observe.namespaces.client import client
    from chimbuko.observe.namespaces.exchange import namespacereader

    return getattr(client if name == "Client" else namespacereader, name)
