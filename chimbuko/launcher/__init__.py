"""Starts, watches and ends the processes of a run; with ``run`` a Python program asks for one.

May import ad.handoff, ad.streams, capture.follow, capture.formats, capture.symbols, capture.trace,
core.calls, core.kernels, core.statistics, instrument.recorder, launcher.offline, launcher.outcome,
launcher.services, monitor.procfs, monitor.report, monitor.sampling, provenance.alerts,
provenance.explain, provenance.history, provenance.manage, provenance.query, provenance.store, runtime,
runtime.process, runtime.protocol and runtime.runs.
It begins in ``assembly``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chimbuko.launcher.library import run
    from chimbuko.launcher.options import AnalysisOptions, RunOptions, TransportOptions
    from chimbuko.launcher.services.choices import AlertOptions, ServiceChoices

__all__ = ["AlertOptions", "AnalysisOptions", "RunOptions", "ServiceChoices", "TransportOptions", "run"]


def __getattr__(name: str) -> Any:
    """Return a name that a Python program asks for; its module is loaded at its first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chimbuko.launcher import library, options
    from chimbuko.launcher.services import choices

    modules = {"run": library, "AlertOptions": choices, "ServiceChoices": choices}
    return getattr(modules.get(name, options), name)
