"""Starts, watches and ends the processes of a run; with ``run`` a Python program asks for one.

May import ad.detectors, ad.handoff, ad.spool, ad.streams, follow, follow.guard, formats.streams,
kernels, launcher.outcome, launcher.services, process, protocol, provenance.manage, provenance.store,
recorder, runs, shield, statistics and trace.
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
    """What a Python program needs: loaded when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from chimbuko.launcher import library, options
    from chimbuko.launcher.services import choices

    modules = {"run": library, "AlertOptions": choices, "ServiceChoices": choices}
    return getattr(modules.get(name, options), name)
