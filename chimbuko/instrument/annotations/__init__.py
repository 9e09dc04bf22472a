"""One-line annotations in Python sources, as PerfFlowAspect's.

May import instrument.tracer.

An annotated function is a call in the live stream of ``chimbuko trace``, and, where ``PERFFLOW_OPTIONS`` is
set in the environment, events in a trace file of PerfFlowAspect's form (``.pfw``). Where there is neither, it
is the function itself.

>>> from chimbuko.instrument.annotations import critical_path
>>> @critical_path
... def solve(n):
...     return n
"""

from __future__ import annotations

from chimbuko.instrument.annotations.aspects import async_event, critical_path, region, sync_event

__all__ = ["async_event", "critical_path", "region", "sync_event"]
