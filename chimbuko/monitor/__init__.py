"""The monitor of a node: what its processes, threads and cores do, period by period, without a trace.

May import monitor.service.
``start`` watches the program that calls it; ``chimbuko monitor`` watches any.
"""

from chimbuko.monitor.service.inprocess import Monitor, start

__all__ = ["Monitor", "start"]
