"""One-line annotations of functions in Python sources, like PerfFlowAspect's.

May import instrument.tracer.

Each call of an annotated function is recorded in the live stream of ``chimbuko trace``, and, where
``PERFFLOW_OPTIONS`` is set in the environment, as events in a trace file in PerfFlowAspect's format
(``.pfw``). Where there is neither, an annotated function is the function itself.

``options``, ``pointcuts``, ``filename`` and ``eventfile`` have PerfFlowAspect's conventions.

>>> from chimbuko.annotations import critical_path
>>> @critical_path
... def solve(n):
...     return n
"""

from __future__ import annotations

from chimbuko.instrument.annotations.aspects import async_event, critical_path, region, sync_event

__all__ = ["async_event", "critical_path", "region", "sync_event"]
