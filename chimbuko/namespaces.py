"""Observation namespaces: ``Client`` publishes, ``Reader`` reads; see ``chimbuko.observe.namespaces``."""

from chimbuko.observe.namespaces import Client, Observation, Reader

__all__ = ["Client", "Observation", "Reader"]
