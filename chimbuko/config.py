"""Settings of the analysis: frozen values, made once at the command line and handed on."""

from __future__ import annotations

import msgspec

METRICS = ("exclusive", "inclusive")


class AnalysisConfig(msgspec.Struct, frozen=True):
    """How calls are judged and what is kept of the abnormal ones."""

    detector: str = "sstd"
    alpha: float = 6.0
    """Calls beyond mean ± alpha · σ are flagged (the paper's 6)."""
    metric: str = "exclusive"
    """Runtime that is judged: ``exclusive`` or ``inclusive``."""
    window_calls: int = 5
    """Calls kept before and after an abnormal one, in order of entry on its thread (the paper's k)."""
    period_us: int = 1_000_000
    """Length of an epoch of learning, in µs of trace time; TAU's trace period."""
    lockstep: bool = False
    """Streams wait for each other at the end of each epoch, so that flags do not depend on timing."""
    watched_counters: tuple[str, ...] = ("monitoring:",)
    """Prefixes of counters that describe the node rather than a call."""
    max_messages: int = 100
    max_counters: int = 100
    final_after_steps: int = 10
    """A record whose window has not filled by then is final as it is."""
    spool_limit_bytes: int = 64 << 20
    """Per stream: beyond this the spool keeps the highest severities and counts the rest."""
