"""Settings of the analysis: frozen values, made once at the command line and handed on."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

METRICS = ("exclusive", "inclusive")
"""Runtimes that can be judged; the first is the default."""


@dataclass(frozen=True)
class DetectorEntry:
    """Where a detector is, and what it learns."""

    maker: str
    """Its class, as ``module.Class`` in ``chimbuko.ad.detectors``."""
    learns_buckets: bool = True
    """Whether it needs counts of runtimes in buckets, beside moments."""


DETECTORS = {
    "robust": DetectorEntry("robust.Robust"),
    "sstd": DetectorEntry("sstd.Sstd", learns_buckets=False),
    "hbos": DetectorEntry("histograms.Hbos"),
    "copod": DetectorEntry("histograms.Copod"),
}
"""The one list of detectors; the first is the default."""


LEAST_CALLS = 38
"""Calls of a function before one of them can be flagged: at 6σ no value that is itself in the statistics lies
outside before the 38th, and a tail that is estimated from fewer calls is a guess."""


class AnalysisConfig(msgspec.Struct, frozen=True):
    """How calls are judged and what is kept of the abnormal ones."""

    detector: str = next(iter(DETECTORS))
    threshold: float | None = None
    """How far from ordinary a call has to be, in the detector's own measure; None for its usual one."""
    thresholds: tuple[tuple[str, float], ...] = ()
    """(name or pattern, threshold) of single functions; the first that matches counts."""
    ignore: tuple[str, ...] = ()
    """Names or patterns of functions that are never flagged."""
    metric: str = "exclusive"
    """Runtime that is judged: ``exclusive`` or ``inclusive``."""
    fast_side: bool = False
    """Calls that are abnormally short are flagged too."""
    min_anomaly_us: int = 1000
    """Calls that differ less from what was expected of their function are not flagged: 0.1 % of a trace
    period, and about what an operating system takes for itself now and then."""
    record_from_step: int = 0
    record_to_step: int | None = None
    """Records are made of these steps only, the last one included; statistics are kept of all."""
    is_frozen: bool = False
    """Calls are judged by a model that was loaded, and by nothing learned since."""
    window_calls: int = 5
    """Calls kept before and after an abnormal one, in order of entry on its thread (the paper's k)."""
    period_us: int = 1_000_000
    """Length of an epoch of learning, in µs of trace time; TAU's trace period."""
    lockstep: bool = False
    """Streams wait for each other at the end of each epoch, so that flags do not depend on timing."""
    watched_counters: tuple[str, ...] = ("monitoring:",)
    """Prefixes of counters that describe the node rather than a call."""
    max_anomalies_per_function: int = 50
    """Of a stream, per period of trace time: of a function with more abnormal calls the most severe are
    recorded, and the others counted. One that was quiet may have ten times as many at once."""
    max_messages: int = 100
    max_counters: int = 100
    final_after_steps: int = 10
    """A record whose window has not filled by then is final as it is."""
    spool_limit_bytes: int = 64 << 20
    """Per stream: beyond this the spool keeps the highest severities and counts the rest."""
    recorder_bytes: int = 4 << 20
    """Per stream: size of the flight recorder, which holds the newest raw rows; 0 for none."""
    server_parts: int = 1
    """Processes that the parameter server consists of, up to 16, where one is not enough for all ranks."""
    node_samples: bool = True
    """Agents of a live run sample the processes of their ranks: incidents can have causes in the node."""

    def records_step(self, step: int) -> bool:
        """Whether records are made of calls that ended in this step."""
        return self.record_from_step <= step and (self.record_to_step is None or step <= self.record_to_step)
