"""Parts of a plugin: the values that its entry points lead to, and what they are given.

Each name is loaded when it is first used: an alert sink needs no database, and a detector no formats.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chimbuko.ad.detectors import Detector, Judgements, Limits
    from chimbuko.capture.formats.readers.events import Catalogue, Kind, table_of
    from chimbuko.capture.formats.readers.registry import Format as TraceFormat
    from chimbuko.capture.formats.readers.registry import Sample
    from chimbuko.causes.evidence.evidence import Evidence
    from chimbuko.causes.evidence.flag import Flag
    from chimbuko.causes.kinds.cause import Cause
    from chimbuko.causes.part import Part
    from chimbuko.core.config import AnalysisConfig, DetectorEntry
    from chimbuko.core.statistics.schema import BUCKETED_PROFILE, PROFILE
    from chimbuko.launcher.jobs.job import Job, Request, Scheduler
    from chimbuko.launcher.jobs.schedulers import SchedulerKind
    from chimbuko.observe.namespaces.exchange.namespacereader import Observation
    from chimbuko.provenance.alerts.sinks import Sink, SinkError
    from chimbuko.provenance.export.registry import Format as ExportFormat
    from chimbuko.provenance.export.source import ExportSource

_MODULES = {
    "ad.detectors": ("Detector", "Judgements", "Limits"),
    "capture.formats.readers.events": ("Catalogue", "Kind", "table_of"),
    "capture.formats.readers.registry": ("Sample", "TraceFormat"),
    "causes.evidence.evidence": ("Evidence",),
    "causes.evidence.flag": ("Flag",),
    "causes.kinds.cause": ("Cause",),
    "causes.part": ("Part",),
    "core.config": ("AnalysisConfig", "DetectorEntry"),
    "core.statistics.schema": ("BUCKETED_PROFILE", "PROFILE"),
    "launcher.jobs.job": ("Job", "Request", "Scheduler"),
    "launcher.jobs.schedulers": ("SchedulerKind",),
    "observe.namespaces.exchange.namespacereader": ("Observation",),
    "provenance.alerts.sinks": ("Sink", "SinkError"),
    "provenance.export.registry": ("ExportFormat",),
    "provenance.export.source": ("ExportSource",),
}
_ORIGINAL = {"TraceFormat": "Format", "ExportFormat": "Format"}

__all__ = [
    "BUCKETED_PROFILE",
    "PROFILE",
    "AnalysisConfig",
    "Catalogue",
    "Cause",
    "Detector",
    "DetectorEntry",
    "Evidence",
    "ExportFormat",
    "ExportSource",
    "Flag",
    "Job",
    "Judgements",
    "Kind",
    "Limits",
    "Observation",
    "Part",
    "Request",
    "Sample",
    "Scheduler",
    "SchedulerKind",
    "Sink",
    "SinkError",
    "TraceFormat",
    "table_of",
]


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"chimbuko.{module}"), _ORIGINAL.get(name, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
