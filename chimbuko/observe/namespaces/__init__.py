"""Observation namespaces: values that programs publish of themselves, under hierarchical keys.

May import observe.namespaces.client and observe.namespaces.exchange.
``Client`` publishes, ``Reader`` reads; ``chimbuko namespaces`` serves both.
"""

from chimbuko.observe.namespaces.client.client import Client
from chimbuko.observe.namespaces.exchange.namespacereader import Observation, Reader

__all__ = ["Client", "Observation", "Reader"]
