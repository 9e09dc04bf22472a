"""One-line annotations of functions, like PerfFlowAspect's; see ``chimbuko.instrument.annotations``."""

from chimbuko.instrument.annotations import async_event, critical_path, region, sync_event

__all__ = ["async_event", "critical_path", "region", "sync_event"]
