"""Observation namespaces: what programs, nodes and workflows report of themselves, under hierarchical keys.

May import namespaces.client and namespaces.exchange.
``Client`` publishes, ``Reader`` reads; ``chimbuko namespaces`` serves both.
"""

from chimbuko.namespaces.client.client import Client
from chimbuko.namespaces.exchange.reader import Observation, Reader

__all__ = ["Client", "Observation", "Reader"]
